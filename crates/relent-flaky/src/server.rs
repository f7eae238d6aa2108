//! The server: connections in, decisions asked for, answers out.

use std::future::{pending, poll_fn};
use std::hash::Hasher;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fnv::FnvHasher;
use http::request::Parts;
use http::{HeaderMap, Response, Version};
use http_body::Body;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::admin;
use crate::fate::{Arrival, Seen, State};
use crate::law::Scope;
use crate::record::Record;
use crate::step::{Step, What};
use crate::wire::{self, Line};
use crate::{http1, http2};

/// How long a client may take to send the head of a request, and how long a connection may be idle.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest head of a request, in bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// How long nothing may come of a body that is not complete.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests may still take when the server ends.
const GRACE: Duration = Duration::from_secs(5);
/// How many connections that are too many are closed with care at the same time.
const LEAVING: usize = 64;
const BACKLOG: u32 = 1024;

/// What is said to connections beyond the limit.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-type: text/plain\r\n\
    content-length: 21\r\nconnection: close\r\n\r\ntoo many connections\n";

pub(crate) type Hook = Arc<dyn Fn(&Record) + Send + Sync>;

pub(crate) struct Server {
    state: Mutex<State>,
    started: Mutex<Instant>,
    /// Until when the port is closed by a step.
    refusing: watch::Sender<Option<Instant>>,
    pub(crate) admin: Option<String>,
    pub(crate) attempt_header: Option<String>,
    pub(crate) hook: Option<Hook>,
    pub(crate) max_connections: usize,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tokio_rustls::TlsAcceptor>,
}

/// What a request comes to.
pub(crate) enum Reply {
    Step(Step, Place),
    Admin(Response<Bytes>),
    /// The client left before its request was complete.
    Gone,
}

/// Occupies the server until it is dropped.
pub(crate) struct Place(Option<Arc<Server>>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = &self.0 {
            server.state().leave();
        }
    }
}

/// Tells once that the server is to end.
#[derive(Clone, Debug)]
pub(crate) struct Stopped {
    receiver: watch::Receiver<()>,
    told: bool,
}

impl Stopped {
    pub(crate) fn new(receiver: watch::Receiver<()>) -> Self {
        Self { receiver, told: false }
    }

    pub(crate) async fn wait(&mut self) {
        if self.told {
            pending::<()>().await;
        }
        // An error means that nobody holds the server any more.
        let _ = self.receiver.changed().await;
        self.told = true;
    }

    /// Whether nobody holds the server any more.
    fn is_abandoned(&self) -> bool {
        self.receiver.has_changed().is_err()
    }
}

impl Server {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            started: Mutex::new(Instant::now()),
            refusing: watch::Sender::new(None),
            admin: None,
            attempt_header: None,
            hook: None,
            max_connections: 0,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As if the server had just been started.
    pub(crate) fn reset(&self) {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.state().reset();
        self.refusing.send_replace(None);
    }

    /// Deals with a request up to its answer, the wait before it included.
    pub(crate) async fn handle<B>(self: &Arc<Self>, parts: &Parts, mut body: B, peer: SocketAddr) -> Reply
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let path = parts.uri.path();
        if let Some(place) = self.admin.as_deref().and_then(|prefix| admin::place(prefix, path)) {
            return match read(&mut body, Some(admin::MAX_BODY)).await {
                Some((_, text)) => Reply::Admin(admin::answer(self, place, parts, &text)),
                None => Reply::Gone,
            };
        }
        let arrival = self.arrival(parts, peer);
        let now = self.now();
        let fate = self.state().arrive(&arrival, now);
        let place = Place(fate.admitted.then(|| Arc::clone(self)));
        let Some((seen, _)) = read(&mut body, None).await else {
            self.state().counters.aborted += 1;
            return Reply::Gone;
        };
        let fate = self.state().settle(&arrival, fate, seen);
        if let Some(hook) = &self.hook {
            hook(&Record::new(now, peer, parts.version == Version::HTTP_2, arrival, &fate, seen));
        }
        if !fate.wait.is_zero() {
            sleep(fate.wait).await;
        }
        if let What::Refuse(time) = fate.step.what {
            self.refusing.send_replace(Some(Instant::now() + time));
        }
        Reply::Step(fate.step, place)
    }

    fn arrival(&self, parts: &Parts, peer: SocketAddr) -> Arrival {
        let text = |name: &str| {
            let value = parts.headers.get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let attempt = match &self.attempt_header {
            Some(name) => text(name),
            None => attempt(&parts.headers),
        };
        let scope = match &self.state().plan.scope {
            Scope::Header(name) => text(name),
            _ => None,
        };
        Arrival {
            peer: peer.ip(),
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            key: text("idempotency-key"),
            attempt,
            scope,
        }
    }

    /// Since the start.
    fn now(&self) -> Duration {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Until when connections are refused.
    fn refused_until(&self) -> Option<Instant> {
        let now = self.now();
        let instant = Instant::now();
        let outages = &self.state().plan.outages;
        let outage = outages.iter().filter_map(|outage| outage.refused_until(now)).max();
        let outage = outage.map(|until| instant + (until - now));
        let step = *self.refusing.borrow();
        outage.max(step).filter(|until| *until > instant)
    }

    /// When the port closes next by the clock.
    async fn next_refusal(&self) {
        let now = self.now();
        let next = self.state().plan.outages.iter().filter_map(|outage| outage.next_refusal(now)).min();
        match next {
            Some(next) => sleep(next - now).await,
            None => pending().await,
        }
    }
}

/// The number of the attempt, by the headers that clients and proxies send.
fn attempt(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    if let Some(attempt) = text("relent-attempt").or_else(|| text("x-envoy-attempt-count")) {
        return Some(attempt.to_owned());
    }
    if let Some(before) = text("grpc-previous-rpc-attempts").and_then(|text| text.parse::<u32>().ok()) {
        return Some(before.saturating_add(1).to_string());
    }
    // "attempt=2; max=3"
    let parts = text("amz-sdk-request")?.split(';');
    parts.filter_map(|part| part.trim().strip_prefix("attempt=")).next().map(str::to_owned)
}

/// Reads a body to its end, and keeps its first bytes if that is asked for; `None` if it never comes whole.
async fn read<B>(body: &mut B, keep: Option<usize>) -> Option<(Seen, Vec<u8>)>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut hasher = FnvHasher::default();
    let mut length = 0u64;
    let mut kept = Vec::new();
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        let data = match timeout(BODY_TIMEOUT, frame).await {
            Ok(None) => return Some((Seen { length, hash: hasher.finish() }, kept)),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(_))) | Err(_) => return None,
        };
        hasher.write(&data);
        length = length.saturating_add(data.len() as u64);
        // One byte more tells that it is too long.
        let room = keep.map_or(0, |most| (most + 1).saturating_sub(kept.len()));
        kept.extend_from_slice(data.get(..room).unwrap_or(&data));
    }
}

/// A port that can be closed for a while without being lost.
pub(crate) struct Door {
    address: SocketAddr,
    listener: Option<TcpListener>,
    /// Bound and never listening: the port stays ours, while connections to it are refused. Not all systems have that.
    _claim: Option<TcpSocket>,
}

impl Door {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let claim = bound(address)?;
        let address = claim.local_addr()?;
        if let Ok(listener) = bound(address).and_then(|socket| socket.listen(BACKLOG)) {
            return Ok(Self { address, listener: Some(listener), _claim: Some(claim) });
        }
        Ok(Self { address, listener: Some(claim.listen(BACKLOG)?), _claim: None })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let listener = match &mut self.listener {
            Some(listener) => listener,
            closed => closed.insert(bound(self.address)?.listen(BACKLOG)?),
        };
        listener.accept().await
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Whoever starts it again must not wait for the connections of last time.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves until it is stopped, and then the requests that are on their way.
pub(crate) async fn run(server: Arc<Server>, mut door: Door, mut stopped: Stopped) {
    let for_connections = stopped.clone();
    let mut refusing = server.refusing.subscribe();
    let mut connections = JoinSet::new();
    let mut leaving = JoinSet::new();
    loop {
        let refused = server.refused_until();
        if refused.is_some() {
            door.listener = None;
        }
        let reopen = async {
            match refused {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = stopped.wait() => break,
            _ = refusing.changed() => {}
            () = reopen => {}
            () = server.next_refusal(), if refused.is_none() => {}
            Some(_) = connections.join_next() => {}
            Some(_) = leaving.join_next() => {}
            accepted = door.accept(), if refused.is_none() => match accepted {
                Ok((stream, peer)) => {
                    if connections.len() >= server.max_connections {
                        server.state().counters.turned_away += 1;
                        let farewell = turn_away(stream);
                        if leaving.len() < LEAVING {
                            leaving.spawn(farewell);
                        }
                        continue;
                    }
                    server.state().counters.connections += 1;
                    connections.spawn(connect(Arc::clone(&server), stream, peer, for_connections.clone()));
                }
                // Out of descriptors, or the port is still taken: trying again at once would keep the processor busy.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
    drop(door);
    if stopped.is_abandoned() {
        return;
    }
    let all = async { while connections.join_next().await.is_some() {} };
    // What hangs by order has no end of its own.
    let _ = timeout(GRACE, all).await;
}

async fn connect(server: Arc<Server>, stream: TcpStream, peer: SocketAddr, stopped: Stopped) {
    // Small pieces are to be seen when they are sent.
    let _ = stream.set_nodelay(true);
    #[cfg(feature = "tls")]
    if let Some(tls) = server.tls.clone() {
        if let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            speak(server, stream, peer, stopped).await;
        }
        return;
    }
    speak(server, stream, peer, stopped).await;
}

async fn speak<S: wire::Stream>(server: Arc<Server>, stream: S, peer: SocketAddr, mut stopped: Stopped) {
    let opened = tokio::select! {
        opened = timeout(HEAD_TIMEOUT, Line::open(stream)) => opened,
        // Nothing was asked for yet.
        () = stopped.wait() => return,
    };
    // Whatever fails here, the client has left.
    match opened {
        Ok(Ok((line, true))) => drop(http2::serve(line, server, peer, stopped).await),
        Ok(Ok((line, false))) => http1::serve(line, server, peer, stopped).await,
        _ => {}
    }
}

async fn turn_away(stream: TcpStream) {
    let said = stream.into_std().and_then(|mut stream| {
        stream.write_all(TOO_MANY)?;
        TcpStream::from_std(stream)
    });
    if let Ok(stream) = said {
        let _ = wire::linger(stream).await;
    }
}
