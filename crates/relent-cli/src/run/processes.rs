//! Process groups, and what `/proc` says about processes.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpgrp, getpid, getppid, getsid};

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) id: Pid,
    pub(super) parent: Pid,
    pub(super) group: Pid,
    pub(super) session: Pid,
    /// Whether it has ended and only waits for its parent to notice.
    pub(super) ended: bool,
}

/// Sends `signal` to each process of a group. That it has none is no error.
pub(super) fn signal_group(group: Pid, signal: Signal) -> Result<(), Errno> {
    match killpg(group, signal) {
        Err(Errno::ESRCH) => Ok(()),
        sent => sent,
    }
}

/// Whether a group has a process that has not ended. Where a container's first process reaps nothing, dead ones
/// stay in their group for ever; they do not count.
pub(super) fn group_lives(group: Pid) -> bool {
    if killpg(group, None) == Err(Errno::ESRCH) {
        return false;
    }
    match all() {
        Some(mut processes) => processes.any(|process| process.group == group && !process.ended),
        None => true,
    }
}

/// The children of `parent`, the ended ones too. Empty where there is no `/proc`.
pub(super) fn children(parent: Pid) -> Vec<Process> {
    all().into_iter().flatten().filter(|process| process.parent == parent).collect()
}

/// Takes note of the end of each child that has ended, but for `except`, so that its entry can go.
pub(super) fn reap_children(except: Option<Pid>) {
    for child in children(getpid()).into_iter().filter(|child| child.ended && Some(child.id) != except) {
        let _ = waitpid(child.id, Some(WaitPidFlag::WNOHANG));
    }
}

/// What a process calls itself; it may have ended, as long as nobody has reaped it.
pub(super) fn name(id: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Whether nobody outside of our process group, but in our session, could continue us once we are stopped: no shell
/// with job control. The kernel ignores Ctrl-Z for such a group, and so must we.
pub(super) fn own_group_is_orphaned() -> bool {
    let (group, session) = (getpgrp(), getsid(None));
    let mut parent = getppid();
    // Up through our own group to the first process outside of it.
    for _ in 0..64 {
        let Some(process) = process(parent) else { return true };
        if process.group != group {
            return Ok(process.session) != session;
        }
        parent = process.parent;
    }
    true
}

fn process(id: Pid) -> Option<Process> {
    parse(&fs::read(format!("/proc/{id}/stat")).ok()?)
}

fn all() -> Option<impl Iterator<Item = Process>> {
    let entries = fs::read_dir("/proc").ok()?;
    Some(entries.filter_map(|entry| {
        let id: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        process(Pid::from_raw(id))
    }))
}

/// `PID (NAME) STATE PARENT GROUP SESSION …`; the name may hold anything, closing brackets included.
fn parse(stat: &[u8]) -> Option<Process> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let (before, after) = stat.split_at_checked(name_ends)?;
    let id = std::str::from_utf8(before.split(|byte| *byte == b' ').next()?).ok()?.parse().ok()?;
    let mut fields = std::str::from_utf8(after.get(1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok().map(Pid::from_raw);
    let (parent, group, session) = (number()?, number()?, number()?);
    Some(Process { id: Pid::from_raw(id), parent, group, session, ended: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let process = parse(b"4711 (a) Z 1 2 (\xff b)) S 12 4711 99 0 -1 4194304").unwrap();
        assert_eq!((process.id.as_raw(), process.parent.as_raw()), (4711, 12));
        assert_eq!((process.group.as_raw(), process.session.as_raw(), process.ended), (4711, 99, false));
        assert!(parse(b"4711 (sh) Z 12 4711 99 0").unwrap().ended);
        assert!(parse(b"").is_none());
        assert!(parse(b"4711 (sh) S 12").is_none());
    }
}
