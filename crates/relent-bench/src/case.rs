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
pub(crate) struct Table {
    /// Its name on the command line.
    pub(crate) word: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: Rows,
}

/// What the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    BlockingCalls,
    AsyncCalls,
    /// Anything else, by its name.
    Per(&'static str),
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
        let words = [self.table.word, self.name, self.variant];
        words.map(|word| word.replace(' ', "-")).join("/").trim_end_matches('/').to_owned()
    }
}

impl Table {
    /// Whether its rows are calls, as opposed to parts of one.
    pub(crate) fn is_calls(self) -> bool {
        !matches!(self.rows, Rows::Per(_))
    }
}
