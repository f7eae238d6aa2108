//! Calls to one target from one thread, and from two at once.

use std::error::Error;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};

use recloser::Recloser;

use crate::case::{Case, Table};
use crate::kept;
use crate::operation::{Kind, Small};
use crate::whole::Targets;

const TABLE: Table = Table::THREADS;
/// A sample is so many times longer than others, so that waking the other thread does not count.
const LONGER: u64 = 10;

pub(crate) const ONE: &str = "one thread";
pub(crate) const TWO: &str = "two threads";

pub(crate) fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let Targets { row, time, .. } = Targets::new()?;
    let breaker = kept(Recloser::custom().error_rate(0.5).closed_len(100).build());
    let mut cases = Vec::new();
    cases.extend(both("relent", || drop(black_box(row.retry_blocking(Small::succeed)))));
    cases.extend(both("relent, with windows of time", || {
        drop(black_box(time.retry_blocking(Small::succeed)));
    }));
    cases.extend(both("recloser, the breaker alone", || drop(black_box(breaker.call(Small::succeed)))));
    Ok(cases)
}

fn both(name: &'static str, call: impl Fn() + Copy + Send + 'static) -> [Case; 2] {
    let mut other = None;
    [
        Case::new(TABLE, name, move |calls| repeat(call, calls * LONGER)).variant(ONE).per_call(LONGER),
        Case::new(TABLE, name, move |calls| {
            let other = other.get_or_insert_with(|| Other::new(call));
            other.begin(calls * LONGER);
            repeat(call, calls * LONGER);
            other.wait();
        })
        .variant(TWO)
        .per_call(LONGER),
    ]
}

fn repeat(call: impl Fn(), calls: u64) {
    for _ in 0..calls {
        call();
    }
}

/// A thread that makes as many calls when it is told to.
struct Other {
    begin: Sender<u64>,
    ended: Receiver<()>,
}

impl Other {
    fn new(call: impl Fn() + Copy + Send + 'static) -> Self {
        let (begin, begins) = channel();
        let (ends, ended) = channel();
        std::thread::spawn(move || {
            for calls in begins {
                repeat(call, calls);
                if ends.send(()).is_err() {
                    break;
                }
            }
        });
        Self { begin, ended }
    }

    fn begin(&mut self, calls: u64) {
        // It lives as long as this.
        let _ = self.begin.send(calls);
    }

    fn wait(&mut self) {
        let _ = self.ended.recv();
    }
}
