//! The signals that reach the wrapper, as something that can be polled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// What ends a call: each is handed on to the command, and the wrapper dies by it afterwards.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// What is only handed on; by default it would end the wrapper and leave the command alone.
const FORWARDED: [Signal; 2] = [Signal::SIGUSR1, Signal::SIGUSR2];

/// What the wrapper needs for its own work. SIGXFSZ is caught so that writing a spool past `ulimit -f` is an error that
/// can be dealt with instead of the end.
const OWN: [Signal; 4] = [Signal::SIGCHLD, Signal::SIGTSTP, Signal::SIGCONT, Signal::SIGXFSZ];

/// The signals that have arrived.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    ignored: u64,
}

/// What a signal means to the wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The call is over: hand it on, wait for the command, die by it.
    End(Signal),
    /// Hand it on.
    Forward(Signal),
    /// A child changed its state.
    Child,
    /// Ctrl-Z.
    Stop,
    /// `fg` or `bg`.
    Continue,
    /// Nothing to do.
    Nothing,
}

impl Signals {
    /// Begins to catch them. What the parent had ignored stays ignored, for the command too: `nohup` must go on working.
    pub(super) fn catch() -> io::Result<Self> {
        let ignored = ignored();
        let kept = |signal: &Signal| ignored & bit(*signal) == 0;
        // Whoever ignored SIGCHLD would have the kernel throw the exit codes away.
        let caught = ENDING.into_iter().chain(FORWARDED).chain(OWN);
        let numbers =
            caught.filter(|signal| *signal == Signal::SIGCHLD || kept(signal)).map(|signal| signal as i32);
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, numbers)?;
        // A parent that blocked it would leave us waiting for children that have long ended.
        let _ = SigSet::from(Signal::SIGCHLD).thread_unblock();
        Ok(Self { delivery, ignored })
    }

    /// What has arrived since the last time.
    pub(super) fn take(&mut self) -> Vec<Meaning> {
        self.delivery.pending().filter_map(|number| Signal::try_from(number).ok()).map(meaning).collect()
    }

    /// The first of those that have arrived that ends the call. The others are dropped.
    pub(super) fn take_ending(&mut self) -> Option<Signal> {
        self.take().into_iter().find_map(|meaning| match meaning {
            Meaning::End(signal) => Some(signal),
            _ => None,
        })
    }

    /// Whether this one is caught, rather than having been ignored from the start.
    pub(super) fn catches(&self, signal: Signal) -> bool {
        self.ignored & bit(signal) == 0
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

/// Whether this is the first process of a container (or of a machine): the kernel lets no signal that is not caught
/// reach it, and hands it all orphans.
pub(super) fn is_init() -> bool {
    getpid() == Pid::from_raw(1)
}

/// Ends this process by `signal`, as if it had never been caught. Comes back only where that is impossible.
pub(super) fn die_by(signal: Signal) {
    if is_init() {
        return;
    }
    // The core would be the wrapper's, not the command's.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = SigSet::from(signal).thread_unblock();
    let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
}

fn meaning(signal: Signal) -> Meaning {
    match signal {
        Signal::SIGCHLD => Meaning::Child,
        Signal::SIGTSTP => Meaning::Stop,
        Signal::SIGCONT => Meaning::Continue,
        ending if ENDING.contains(&ending) => Meaning::End(ending),
        forwarded if FORWARDED.contains(&forwarded) => Meaning::Forward(forwarded),
        _ => Meaning::Nothing,
    }
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// The signals that were ignored when the program began, as a set of bits. Only Linux tells without unsafe code;
/// elsewhere none are taken to be.
fn ignored() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
