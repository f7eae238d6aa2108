//! What is measured.

use tokio::runtime::Runtime;

/// One row of a table: a loop around one retry crate's call.
pub(crate) struct Case {
    /// The table it belongs to.
    pub(crate) table: Table,
    /// The crate, or what stands in its place ("bare").
    pub(crate) name: &'static str,
    /// What sets this row apart from others of the same crate; where there is a deadline, what it is.
    pub(crate) variant: &'static str,
    /// The row that does the same without retries, if there is one.
    pub(crate) bare: Option<&'static str>,
    /// Makes so many calls.
    pub(crate) run: Box<dyn FnMut(u64)>,
    /// How many results a call gives: the figures are per result.
    pub(crate) per_call: u64,
    /// Makes so many calls of which each attempt fails, three attempts per call, with no wait between them.
    pub(crate) fail: Option<Box<dyn FnMut(u64)>>,
    /// The size of the future, in bytes.
    pub(crate) future: Option<usize>,
}

/// What is compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    AsyncSmall,
    AsyncIo,
    BlockingSmall,
    BlockingIo,
    WaitsDoubling,
    WaitsOneAndAHalf,
    WaitMillionth,
}

impl Case {
    pub(crate) fn new(table: Table, name: &'static str, run: impl FnMut(u64) + 'static) -> Self {
        let (variant, bare, fail, future) = ("", None, None, None);
        Self { table, name, variant, bare, run: Box::new(run), per_call: 1, fail, future }
    }

    pub(crate) fn variant(self, variant: &'static str) -> Self {
        Self { variant, ..self }
    }

    pub(crate) fn over(self, bare: &'static str) -> Self {
        Self { bare: Some(bare), ..self }
    }

    pub(crate) fn per_call(self, per_call: u64) -> Self {
        Self { per_call, ..self }
    }

    pub(crate) fn failing(self, fail: impl FnMut(u64) + 'static) -> Self {
        Self { fail: Some(Box::new(fail)), ..self }
    }

    pub(crate) fn future(self, bytes: usize) -> Self {
        Self { future: Some(bytes), ..self }
    }

    /// Runs inside the runtime, for what needs to know one.
    pub(crate) fn inside(mut self, runtime: &'static Runtime) -> Self {
        let mut run = self.run;
        self.run = Box::new(move |calls| {
            let _inside = runtime.enter();
            run(calls);
        });
        self
    }

    /// The case's name on the command line.
    pub(crate) fn id(&self) -> String {
        let words = [self.table.word(), self.name, self.variant];
        words.map(|word| word.replace(' ', "-")).join("/").trim_end_matches('/').to_owned()
    }
}

impl Table {
    pub(crate) const ALL: [Self; 7] = [
        Self::AsyncSmall,
        Self::AsyncIo,
        Self::BlockingSmall,
        Self::BlockingIo,
        Self::WaitsDoubling,
        Self::WaitsOneAndAHalf,
        Self::WaitMillionth,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::AsyncSmall => "async-small",
            Self::AsyncIo => "async-io",
            Self::BlockingSmall => "blocking-small",
            Self::BlockingIo => "blocking-io",
            Self::WaitsDoubling => "waits-x2",
            Self::WaitsOneAndAHalf => "waits-x1.5",
            Self::WaitMillionth => "wait-millionth",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::AsyncSmall => "Async, success at the first attempt, `Result<u32, Refused>`",
            Self::AsyncIo => "Async, success at the first attempt, `io::Result<u64>`",
            Self::BlockingSmall => "Blocking, success at the first attempt, `Result<u32, Refused>`",
            Self::BlockingIo => "Blocking, success at the first attempt, `io::Result<u64>`",
            Self::WaitsDoubling => "The next wait, × 2, jitter on: a new schedule and its first 8 waits",
            Self::WaitsOneAndAHalf => "The next wait, × 1.5, jitter on: a new schedule and its first 8 waits",
            Self::WaitMillionth => "The next wait after a million, jitter on",
        }
    }

    /// Whether its rows are calls, as opposed to waits.
    pub(crate) fn is_calls(self) -> bool {
        matches!(self, Self::AsyncSmall | Self::AsyncIo | Self::BlockingSmall | Self::BlockingIo)
    }

    pub(crate) fn is_async(self) -> bool {
        matches!(self, Self::AsyncSmall | Self::AsyncIo)
    }
}
