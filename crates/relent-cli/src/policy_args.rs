//! The policy options, by the names that the policy file has; `relent explain` and `relent run` share them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io};

use clap::Args;
use relent_config::{BuiltIn, Checks, Entry, File, Flag, Home, MAX_TEXT, Origin, Preset, Reader, Setting};
use relent_core::{CommonPolicy, Policy};

use crate::exit::Error;
use crate::surroundings::Machine;

/// Which policy is meant: a name in a policy file, single values, or both (the values win).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArgs {
    /// Policy file; without it `relent.toml` is looked for in this directory and those above [env: RELENT_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Policy of that file [env: RELENT_POLICY] [default: the one named "default", if there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Attempts at most, the first included; 1 switches retries off
    #[arg(long, value_name = "N|unlimited", allow_negative_numbers = true)]
    max_attempts: Option<String>,
    /// End of the whole call, waits included
    #[arg(long, value_name = "DURATION")]
    deadline: Option<String>,
    /// Part of the deadline kept back for the caller's own work
    #[arg(long, value_name = "DURATION")]
    deadline_reserve: Option<String>,
    /// What happens with a wait that would reach past the deadline: the call ends, or the wait is cut
    #[arg(long, value_name = "stop|fit")]
    on_deadline: Option<String>,
    /// End of each attempt
    #[arg(long, value_name = "DURATION")]
    attempt_timeout: Option<String>,
    /// Schedule: constant, linear, exponential, fibonacci, list or csma
    #[arg(long, value_name = "KIND")]
    backoff: Option<String>,
    /// First wait
    #[arg(long, value_name = "DURATION")]
    initial: Option<String>,
    /// Growth of an exponential schedule
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    multiplier: Option<String>,
    /// What each wait of a linear schedule adds
    #[arg(long, value_name = "DURATION")]
    step: Option<String>,
    /// Waits of a list; the last one repeats
    #[arg(long, value_name = "DURATION,...")]
    waits: Option<String>,
    /// Slot time of csma
    #[arg(long, value_name = "DURATION")]
    slot: Option<String>,
    /// Longest scheduled wait, jitter included
    #[arg(long, value_name = "DURATION|none")]
    cap: Option<String>,
    /// Shortest scheduled wait, jitter included
    #[arg(long, value_name = "DURATION")]
    floor: Option<String>,
    /// Whether the first retry waits or comes at once
    #[arg(long, value_name = "initial|immediate")]
    first: Option<String>,
    /// Random wait of up to this before the first attempt
    #[arg(long, value_name = "DURATION")]
    initial_spread: Option<String>,
    /// Jitter: none, full, equal, proportional, additive, decorrelated or decorrelated_v2
    #[arg(long, value_name = "KIND")]
    jitter: Option<String>,
    /// Reach of proportional jitter, above 0 and at most 1
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    jitter_factor: Option<String>,
    /// What additive jitter adds at most
    #[arg(long, value_name = "DURATION")]
    jitter_max: Option<String>,
    /// What is made of a wait that the server asks for
    #[arg(long, value_name = "minimum|exact|ignore")]
    hint: Option<String>,
    /// Longest such wait that is obeyed
    #[arg(long, value_name = "DURATION")]
    hint_max: Option<String>,
    /// What happens with longer ones
    #[arg(long, value_name = "abort|clamp|ignore")]
    hint_over_max: Option<String>,
    /// Circuit breaker: the name of one in the policy file, or a table such as '{ window = { size = "30s" } }'
    #[arg(long, value_name = "NAME|TABLE|none")]
    breaker: Option<String>,
    /// Retry budget: names in the policy file with commas, or a table such as '{ kind = "window", ratio = 0.1 }'
    #[arg(long, value_name = "NAME|TABLE|none")]
    budget: Option<String>,
    /// Repeat only calls that are known to be idempotent (not for `run`: of a command, nobody knows)
    #[arg(long)]
    require_idempotency: bool,
    /// Draw the same waits each time (for tests)
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    seed: Option<String>,
}

/// A policy, and where each of its values came from.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    found: relent_config::Resolved,
    /// The policy file, where the policy stands in one.
    file: Option<String>,
}

impl Resolved {
    /// A policy that stands in no file.
    pub(crate) fn alone(found: relent_config::Resolved) -> Self {
        Self { found, file: None }
    }

    /// The preset that lies under the policy.
    pub(crate) fn preset(&self) -> Option<&'static Preset> {
        self.found.preset()
    }

    pub(crate) fn policy(&self) -> &Policy {
        self.found.policy()
    }

    /// What calls of the policy share.
    pub(crate) fn common(&self) -> &CommonPolicy {
        self.found.common()
    }

    /// Where its breaker stands.
    pub(crate) fn breaker_home(&self) -> Option<&Home> {
        self.found.breaker_home()
    }

    /// Where its budgets stand.
    pub(crate) fn budget_homes(&self) -> &[Home] {
        self.found.budget_homes()
    }

    /// The policy's name, if it stands in a file.
    pub(crate) fn name(&self) -> Option<&str> {
        self.found.name()
    }

    /// The policy file, as its path was given or found.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Every value in use, in the order of the documentation.
    pub(crate) fn settings(&self) -> &[Setting] {
        self.found.settings()
    }

    /// Where a value came from, with file and line where there are such.
    pub(crate) fn origin(&self, setting: &Setting) -> String {
        match (&setting.origin, &self.file, setting.line) {
            (Origin::Policy(_) | Origin::Shared(_), Some(file), Some(line)) => {
                format!("{file}:{line} {}", setting.origin)
            }
            (origin, ..) => origin.to_string(),
        }
    }

    /// What the policy says to `relent run` alone, and the means to refuse it.
    pub(crate) fn run_table(&self) -> (Option<Entry<'_>>, Checks) {
        (self.found.extension(RUN_TABLE), self.found.checks())
    }

    /// Whether any value was given as an option.
    pub(crate) fn has_options(&self) -> bool {
        self.settings().iter().any(|setting| matches!(setting.origin, Origin::Flag(_)))
    }

    /// Whether somebody asked for this key's value, rather than leaving it to the defaults.
    pub(crate) fn was_set(&self, path: &str) -> bool {
        let of_path = |setting: &&Setting| setting.path == path;
        self.settings()
            .iter()
            .find(of_path)
            .is_some_and(|setting| !matches!(setting.origin, Origin::BuiltIn(_)))
    }
}

/// The table of a policy that only concerns `relent run`.
const RUN_TABLE: &str = "run";

/// A policy file and its text: the tables that belong to others are read from there.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    pub(crate) file: File,
    pub(crate) text: String,
}

/// The table beside the policies that belongs to `relent simulate`.
const SCENARIOS: &str = "scenarios";

/// What a policy file is called.
const FILE_NAME: &str = "relent.toml";

impl PolicyArgs {
    /// The policy that is meant, options over it. `built_in` is what holds where no policy of a file does; `more` are
    /// options of the command's own.
    ///
    /// Without a name it is the file's policy `default`, if there is a file and it has one.
    ///
    /// # Errors
    ///
    /// Points at the option, or at the line of the file.
    pub(crate) fn resolve(&self, built_in: BuiltIn, more: &[Flag<'_>]) -> Result<Resolved, Error> {
        let flags = [&self.flags(), more].concat();
        // Not clap's business: a name on the command line must not be at odds with one in the environment.
        let wanted = self.wanted()?;
        let Some(PolicyFile { file, .. }) = self.open()? else {
            return match wanted.as_deref() {
                Some(name) => Err(no_file_for(name, self.policy.is_none())),
                None => Ok(Resolved { found: built_in.with(&flags)?, file: None }),
            };
        };
        let name = wanted.as_deref().or_else(|| file.default_policy().map(|_| "default"));
        match name {
            Some(name) => {
                let found = file.policy_with(name, &flags)?;
                Ok(Resolved { found, file: Some(file.file_name().to_owned()) })
            }
            None => Ok(Resolved { found: built_in.with(&flags)?, file: None }),
        }
    }

    /// Whether anybody said which policy is meant, rather than leaving it to the defaults.
    pub(crate) fn is_given(&self) -> bool {
        !matches!(self.wanted(), Ok(None)) || self.has_options()
    }

    /// Whether any value was given as an option.
    pub(crate) fn has_options(&self) -> bool {
        !self.flags().is_empty()
    }

    /// Takes the seed, for a command whose luck does not come from the policy.
    pub(crate) fn take_seed(&mut self) -> Option<String> {
        self.seed.take()
    }

    /// The name of the policy, by option or environment.
    fn wanted(&self) -> Result<Option<String>, Error> {
        if let Some(name) = &self.policy {
            return Ok(Some(name.clone()));
        }
        match env::var("RELENT_POLICY") {
            Ok(name) => Ok(Some(name).filter(|name| !name.is_empty())),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(name)) => {
                Err(Error::usage(format!("RELENT_POLICY={name:?}: not UTF-8")))
            }
        }
    }

    /// The policy file that was named, or else the nearest one upwards.
    pub(crate) fn open(&self) -> Result<Option<PolicyFile>, Error> {
        let of_environment =
            || env::var_os("RELENT_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let (path, text) = match self.config.clone().or_else(of_environment) {
            Some(path) => {
                let text = text_of(&path).map_err(|error| unreadable(&path, error))?;
                (path, text)
            }
            None => match nearest_file()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        // The tables of `run` and `simulate` are checked by those who know them: `run` and `explain`, and `simulate`.
        let reader = Reader::new().policy_table(RUN_TABLE).table(SCENARIOS).surroundings(Arc::new(Machine));
        let file = reader.parse(&text, &path.display().to_string())?;
        Ok(Some(PolicyFile { file, text }))
    }

    /// The option for a policy's key.
    pub(crate) fn option_for(path: &str) -> Option<&'static str> {
        let options = Self::default();
        options.texts().into_iter().find(|(_, known, _)| *known == path).map(|(option, ..)| option)
    }

    /// What was given: option, key's path, text.
    pub(crate) fn flags<'a>(&'a self) -> Vec<Flag<'a>> {
        let flag = self.require_idempotency.then_some(Flag::new(
            "--require-idempotency",
            "idempotency.require",
            "true",
        ));
        let given = |(option, path, text): (_, _, &'a Option<String>)| {
            Some(Flag::new(option, path, text.as_deref()?))
        };
        self.texts().into_iter().filter_map(given).chain(flag).collect()
    }

    /// Options with values: option, key's path, text.
    fn texts(&self) -> [(&'static str, &'static str, &Option<String>); 24] {
        [
            ("--max-attempts", "max_attempts", &self.max_attempts),
            ("--deadline", "deadline", &self.deadline),
            ("--deadline-reserve", "deadline.reserve", &self.deadline_reserve),
            ("--on-deadline", "on_deadline", &self.on_deadline),
            ("--attempt-timeout", "attempt_timeout", &self.attempt_timeout),
            ("--backoff", "backoff.kind", &self.backoff),
            ("--initial", "backoff.initial", &self.initial),
            ("--multiplier", "backoff.multiplier", &self.multiplier),
            ("--step", "backoff.step", &self.step),
            ("--waits", "backoff.waits", &self.waits),
            ("--slot", "backoff.slot", &self.slot),
            ("--cap", "backoff.cap", &self.cap),
            ("--floor", "backoff.floor", &self.floor),
            ("--first", "backoff.first", &self.first),
            ("--initial-spread", "backoff.initial_spread", &self.initial_spread),
            ("--jitter", "jitter", &self.jitter),
            ("--jitter-factor", "jitter.factor", &self.jitter_factor),
            ("--jitter-max", "jitter.max", &self.jitter_max),
            ("--hint", "hint.mode", &self.hint),
            ("--hint-max", "hint.max", &self.hint_max),
            ("--hint-over-max", "hint.over_max", &self.hint_over_max),
            ("--breaker", "breaker", &self.breaker),
            ("--budget", "budget", &self.budget),
            ("--seed", "seed", &self.seed),
        ]
    }
}

/// `relent.toml` in the current directory or the nearest one above, and its text.
fn nearest_file() -> Result<Option<(PathBuf, String)>, Error> {
    let depth = env::current_dir().map_or(1, |directory| directory.ancestors().count());
    // A path that leads upwards is shorter in a message than an absolute one.
    for level in 0..depth {
        let mut path: PathBuf = std::iter::repeat_n("..", level).collect();
        path.push(FILE_NAME);
        match text_of(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A directory that another user may not look into (`sudo -u nobody` at home): whatever is there is not
            // meant for us. A file that can be seen and not read is another matter.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && fs::metadata(&path).is_err() => {
            }
            Err(error) => return Err(unreadable(&path, error)),
        }
    }
    Ok(None)
}

/// A file's text. It is read no further than a policy file may go: it might be a device, or a log.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_TEXT {
        return Err(io::Error::other(format!("more than {MAX_TEXT} bytes, which is the most that is read")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        io::Error::other(format!("line {line} is not UTF-8"))
    })
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::Failure { what: format!("reading the policy file {}", path.display()), source }
}

fn no_file_for(name: &str, of_environment: bool) -> Error {
    let origin = if of_environment { " of RELENT_POLICY" } else { "" };
    let what = format!("policy {name:?}{origin}: there is no {FILE_NAME} in this directory or above");
    Error::usage(what)
        .help("name one with --config FILE, or give the values as options, such as --initial 100ms")
}
