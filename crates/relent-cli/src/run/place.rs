//! What a file descriptor leads to.

use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{FileStat, SFlag, fstat};

/// Whether it is a pipe, a FIFO or a socket.
pub(super) fn is_pipe(fd: impl AsFd) -> bool {
    kind(fd).is_some_and(|kind| kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK)
}

/// Whether it can be read again from the start.
pub(super) fn is_rewindable(fd: impl AsFd) -> bool {
    kind(fd).is_some_and(|kind| kind == SFlag::S_IFREG || kind == SFlag::S_IFBLK)
}

/// Whether both lead to one place, so that what is written to them mixes.
pub(super) fn same(one: impl AsFd, other: impl AsFd) -> bool {
    match (fstat(one), fstat(other)) {
        (Ok(one), Ok(other)) => {
            (one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev)
        }
        _ => false,
    }
}

/// Whether it is a pipe or a socket that nobody reads any more.
pub(super) fn reader_is_gone(fd: impl AsFd) -> bool {
    if !is_pipe(&fd) {
        return false;
    }
    let mut asked = [PollFd::new(fd.as_fd(), PollFlags::empty())];
    match poll(&mut asked, PollTimeout::ZERO) {
        Ok(_) => asked.iter().any(|asked| asked.revents().is_some_and(means_no_reader)),
        Err(_) => false,
    }
}

/// Whether this says that nobody reads any more: of a pipe it is an error, of a socket a hang-up.
pub(super) fn means_no_reader(events: PollFlags) -> bool {
    events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
}

fn kind(fd: impl AsFd) -> Option<SFlag> {
    let stat: FileStat = fstat(fd).ok()?;
    Some(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT)
}
