//! `std::io::ErrorKind` → class, in one table.

use std::io::ErrorKind;

use relent_core::{Class, Outcome};

/// What an I/O error's kind says about trying again.
///
/// | kinds | class | why |
/// |---|---|---|
/// | `ConnectionRefused` | `not_sent` | nobody listened, so nothing was sent |
/// | `ConnectionReset`, `ConnectionAborted`, `BrokenPipe`, `UnexpectedEof`, `NotConnected` | `transient` | the connection died; what was sent may have arrived |
/// | `HostUnreachable`, `NetworkUnreachable`, `NetworkDown`, `AddrNotAvailable` | `transient` | routes come back, ports become free; an established connection reports these too |
/// | `Interrupted`, `WouldBlock`, `ResourceBusy`, `Deadlock`, `ExecutableFileBusy`, `StaleNetworkFileHandle` | `transient` | another moment, another answer |
/// | `TimedOut` | `timeout` | |
/// | all others, such as `NotFound`, `PermissionDenied`, `InvalidData`, `AddrInUse`, `StorageFull`, `Other` | `permanent` | nothing says that the next time would differ |
pub fn outcome_of_kind(kind: ErrorKind) -> Outcome {
    Outcome::of(match kind {
        ErrorKind::ConnectionRefused => Class::NotSent,
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof
        | ErrorKind::NotConnected
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::AddrNotAvailable
        | ErrorKind::Interrupted
        | ErrorKind::WouldBlock
        | ErrorKind::ResourceBusy
        | ErrorKind::Deadlock
        | ErrorKind::ExecutableFileBusy
        | ErrorKind::StaleNetworkFileHandle => Class::Transient,
        ErrorKind::TimedOut => Class::Timeout,
        _ => Class::Permanent,
    })
}
