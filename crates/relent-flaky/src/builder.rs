//! How a server is put together and held.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::counters::Counters;
use crate::fate::{Plan, Route, State};
use crate::law::{Capacity, Keys, Latency, Outage, Scope};
use crate::record::Record;
use crate::script::Script;
use crate::server::{Door, Hook, Server, Stopped, run};
use crate::step::Step;

/// A server that fails on command.
#[derive(Debug)]
pub struct Flaky;

impl Flaky {
    /// A server that is always well: on a free port of 127.0.0.1, 200 to everything.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Puts a server together. Each setter has its default in its text.
#[must_use]
pub struct Builder {
    listen: SocketAddr,
    pub(crate) plan: Plan,
    admin: Option<String>,
    attempt_header: Option<String>,
    max_connections: usize,
    hook: Option<Hook>,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Identity>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            plan: Plan::default(),
            admin: Some("/_flaky".to_owned()),
            attempt_header: None,
            max_connections: 1024,
            hook: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl Builder {
    /// Where to listen; port 0 is any free one. Default: `127.0.0.1:0`.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// What happens to requests that no path's script is for. Default: 200.
    pub fn script(mut self, script: Script) -> Self {
        self.plan.script = script;
        self
    }

    /// What happens to requests for `/path`, for all that begin with `/prefix*`, or for those of one method:
    /// `POST /path`. A whole path goes before a prefix, a long prefix before a short one.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if it is none of these.
    pub fn path(mut self, pattern: &str, script: Script) -> Result<Self, PatternError> {
        let (pattern, route) = route(pattern, script)?;
        self.plan.routes.insert(pattern, route);
        Ok(self)
    }

    /// Whose requests are counted together on their way through a script. Default: those to one path.
    pub fn per(mut self, scope: Scope) -> Self {
        self.plan.scope = scope;
        self
    }

    /// What is drawn by chance: with one seed, request number n to a path meets the same fate whenever it comes.
    /// Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// How many of the requests that the script lets succeed fail by chance, from 0 to 1; what is outside is taken for
    /// the nearest of these. Default: 0.
    pub fn fail(mut self, share: f64) -> Self {
        self.plan.fail = share.clamp(0.0, 1.0);
        self
    }

    /// What happens to those that fail by chance. Default: 503.
    pub fn fail_with(mut self, step: Step) -> Self {
        self.plan.fail_with = step;
        self
    }

    /// How long answers take, besides the script's delays. Default: no time.
    pub fn latency(mut self, latency: Latency) -> Self {
        self.plan.latency = latency;
        self
    }

    /// Adds an outage.
    pub fn outage(mut self, outage: Outage) -> Self {
        self.plan.outages.push(outage);
        self
    }

    /// How much the server can do. Default: everything.
    pub fn capacity(mut self, capacity: Capacity) -> Self {
        self.plan.capacity = Some(capacity);
        self
    }

    /// What happens to requests beyond the capacity. Default: `503(retry-after=1)`.
    pub fn overload(mut self, step: Step) -> Self {
        self.plan.overload = step;
        self
    }

    /// What happens to requests whose `Idempotency-Key` is known. Default: the first answer is repeated.
    pub fn keys(mut self, keys: Keys) -> Self {
        self.plan.keys = keys;
        self
    }

    /// The path below which counters are shown and scripts are changed; `None`: nowhere. Default: `/_flaky`.
    pub fn admin(mut self, prefix: Option<&str>) -> Self {
        self.admin = prefix.map(|prefix| format!("/{}", prefix.trim_matches('/')));
        self
    }

    /// The header in which clients tell the number of the attempt. Default: the first that is there of
    /// `relent-attempt`, `x-envoy-attempt-count`, `grpc-previous-rpc-attempts` (which counts from 0) and
    /// `amz-sdk-request`.
    pub fn attempt_header(mut self, name: &str) -> Self {
        self.attempt_header = Some(name.to_ascii_lowercase());
        self
    }

    /// How many connections are served at the same time, at least 1; the others are sent away with 503. Default: 1024.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most.max(1);
        self
    }

    /// Calls `hook` with each request once its fate is decided, before the wait and the answer. It must not block.
    pub fn on_request(mut self, hook: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Serves TLS with this certificate. Default: none.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, identity: crate::tls::Identity) -> Self {
        self.tls = Some(identity);
        self
    }

    /// Starts the server on the runtime of the caller, which needs tokio's I/O and time.
    ///
    /// # Errors
    ///
    /// Those of listening: the port is taken, the address is not ours.
    pub async fn start(self) -> io::Result<Handle> {
        let (handle, serving) = self.prepare()?;
        Ok(Handle { task: Some(tokio::spawn(serving)), ..handle })
    }

    /// Starts the server on a thread of its own, for programs without a runtime.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start), and if there can be no thread.
    pub fn start_in_thread(self) -> io::Result<Threaded> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (started, wait) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("flaky".to_owned()).spawn(move || {
            runtime.block_on(async {
                match self.prepare() {
                    // Whoever started it waits for this.
                    Ok((handle, serving)) => {
                        let _ = started.send(Ok(handle));
                        serving.await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
        })?;
        let handle = wait.recv().map_err(io::Error::other)??;
        Ok(Threaded { handle, thread: Some(thread) })
    }

    fn prepare(self) -> io::Result<(Handle, impl Future<Output = ()> + Send + 'static)> {
        let door = Door::open(self.listen)?;
        let address = door.address();
        let mut server = Server::new(State::new(self.plan));
        server.admin = self.admin;
        server.attempt_header = self.attempt_header;
        server.hook = self.hook;
        server.max_connections = self.max_connections;
        #[cfg(feature = "tls")]
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        #[cfg(not(feature = "tls"))]
        let scheme = "http";
        #[cfg(feature = "tls")]
        {
            server.tls = self.tls.map(|identity| identity.acceptor()).transpose()?;
        }
        let server = Arc::new(server);
        let (stop, stopped) = watch::channel(());
        let serving = run(Arc::clone(&server), door, Stopped::new(stopped));
        Ok((Handle { server, address, scheme, stop, task: None }, serving))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// A running server. When it is dropped the server ends at once.
#[must_use = "the server ends when this is dropped"]
pub struct Handle {
    server: Arc<Server>,
    address: SocketAddr,
    scheme: &'static str,
    stop: watch::Sender<()>,
    task: Option<JoinHandle<()>>,
}

impl Handle {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL without a path: `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// What was counted since the start, or since the last reset.
    pub fn counters(&self) -> Counters {
        self.server.state().counters.clone()
    }

    /// Gives another script to requests that no path's script is for. All scripts begin anew.
    pub fn set_script(&self, script: Script) {
        self.server.state().set_script(None, Some(script));
    }

    /// Gives a script to paths, as [`Builder::path`] does. All scripts begin anew.
    ///
    /// # Errors
    ///
    /// [`PatternError`], and nothing is changed.
    pub fn set_path_script(&self, pattern: &str, script: Script) -> Result<(), PatternError> {
        let route = route(pattern, script)?;
        self.server.state().set_script(Some(route), None);
        Ok(())
    }

    /// As if the server had just been started: counters, scripts, keys and the clock of the outages.
    pub fn reset(&self) {
        self.server.reset();
    }

    /// Takes no more connections and waits until the requests that are on their way are answered, for 5 s at most.
    /// Returns the last counts.
    pub async fn shutdown(mut self) -> Counters {
        self.stop.send_replace(());
        if let Some(task) = self.task.take() {
            // It fails only if the runtime ends it, or by a fault of its own that has been told by then.
            let _ = task.await;
        }
        self.counters()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A running server on a thread of its own. When it is dropped the server ends at once.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct Threaded {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Deref for Threaded {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Threaded {
    /// Takes no more connections and waits until the requests that are on their way are answered, for 5 s at most.
    /// Returns the last counts.
    pub fn shutdown(mut self) -> Counters {
        self.handle.stop.send_replace(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.handle.counters()
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Only the sender's end ends the requests that are on their way.
            self.handle.stop = watch::Sender::new(());
            let _ = thread.join();
        }
    }
}

fn route(pattern: &str, script: Script) -> Result<(String, Route), PatternError> {
    let pattern = pattern.trim();
    match Route::new(pattern, script) {
        Some(route) => Ok((pattern.to_owned(), route)),
        None => Err(PatternError(pattern.to_owned())),
    }
}

/// No path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = crate::parse::shown(&self.0);
        write!(f, "\"{shown}\" is no path: expected /path, /prefix* or METHOD /path")
    }
}

impl std::error::Error for PatternError {}
