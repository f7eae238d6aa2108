//! A small flaky service, for real: HTTP over TCP on the loopback device, which misbehaves by a script.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What the service does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// 503.
    Fail,
    /// Takes the request and says nothing.
    Hang,
    /// 429 with `Retry-After`, in seconds.
    Throttle(u64),
    /// 200.
    Answer,
}

/// The service. It ends with its script.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    served: Receiver<Act>,
}

/// Nobody is to hang on a client that connects and says nothing.
const PATIENCE: Duration = Duration::from_secs(2);

impl Service {
    /// Starts it: request number n gets act number n.
    pub(crate) fn start(script: &'static [Act]) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let (tell, served) = channel();
        thread::Builder::new().name("flaky service".to_owned()).spawn(move || {
            let mut silent = Vec::new();
            for act in script {
                let Ok((client, _)) = listener.accept() else { return };
                // What a client makes of its answer is its own business.
                let _ = perform(*act, client, &mut silent);
                let _ = tell.send(*act);
            }
        })?;
        Ok(Self { address, served })
    }

    /// What it has done so far.
    pub(crate) fn served(&self) -> Vec<Act> {
        self.served.try_iter().collect()
    }
}

fn perform(act: Act, mut client: TcpStream, silent: &mut Vec<TcpStream>) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let mut request = [0; 1024];
    let _ = client.read(&mut request)?;
    match act {
        Act::Fail => client.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")?,
        Act::Throttle(seconds) => {
            write!(
                client,
                "HTTP/1.1 429 Too Many Requests\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n"
            )?;
        }
        Act::Answer => client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n")?,
        Act::Hang => {
            // Kept open: a closed connection would be an answer.
            silent.push(client);
            return Ok(());
        }
    }
    client.shutdown(Shutdown::Both)
}
