//! A blocking wait on a runtime's thread says so in debug builds: seen from outside, in a process of its own.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::process::Command;
use std::time::Duration;

use relent::{Jitter, Policy, blocking};

/// What the test `name` writes to standard error.
fn stderr_of(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let ran = Command::new(test).args(["--exact", name, "--ignored", "--nocapture"]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stderr).unwrap()
}

/// Two calls, each with a wait on the system's clock: a real one, of a nanosecond.
fn wait_twice() {
    let policy =
        Policy::constant(Duration::from_nanos(1)).jitter(Jitter::None).max_attempts(2).build().unwrap();
    for _ in 0..2 {
        assert!(
            blocking::retry(&policy, || Err::<(), _>(std::io::Error::from(std::io::ErrorKind::TimedOut)))
                .is_err()
        );
    }
}

#[test]
fn it_is_said_once_on_a_runtime() {
    let said = stderr_of("inner::on_a_runtime")
        .matches("relent: a blocking retry waits on a thread of a tokio")
        .count();
    assert_eq!(said, usize::from(cfg!(debug_assertions)));
}

#[test]
fn it_is_not_said_elsewhere() {
    assert_eq!(stderr_of("inner::on_a_thread"), "");
}

/// Run by the tests above.
mod inner {
    #[test]
    #[ignore = "run by the tests above, in a process of its own"]
    fn on_a_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { super::wait_twice() });
    }

    #[test]
    #[ignore = "run by the tests above, in a process of its own"]
    fn on_a_thread() {
        super::wait_twice();
    }
}
