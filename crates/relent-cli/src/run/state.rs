//! What the runs of a command share: within one process, or through a state file.

mod record;
mod store;

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relent::{
    Backoff, Breaker, BreakerPolicy, Budget, BudgetPolicy, Jitter, Keeper, Locked, Policy, Ratio, Retrier,
    Schedule, Target, Timestamp,
};
use relent_config::{Home, Scope, common_to_toml};
use relent_core::CommonPolicy;

use self::record::{Part, State};
use self::store::{Session, Store, Trouble};
use super::Epoch;
use crate::exit::Error;
use crate::policy_args::Resolved;

/// The options about a state file.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "State")]
pub(super) struct StateArgs {
    /// Keep the policy's breaker and budgets in this file, so that the next runs know of this one. Without a breaker or
    /// budget in the policy: a breaker that opens at 10 failed attempts in a row, for 1m at first and up to 1h
    #[arg(long = "state", value_name = "FILE")]
    file: Option<PathBuf>,
    /// By which name the file knows this command; runs of one name share what is kept [default: the program's name and a
    /// sum of the arguments]
    #[arg(long = "state-key", value_name = "KEY", requires = "file")]
    key: Option<String>,
}

/// What holds where a state file is named and the policy says nothing: ten attempts, which are two runs in a row in which
/// all failed; then longer and longer, since nobody waits for a command that comes again by itself.
fn default_breaker() -> BreakerPolicy {
    let open_for = Backoff::new(Schedule::exponential(Duration::from_secs(60)))
        .cap(Duration::from_secs(60 * 60))
        .jitter(Jitter::Proportional { factor: 0.2 });
    BreakerPolicy::consecutive(10).open_for(open_for).max_probe_duration(Duration::from_secs(10 * 60))
}

/// What the attempts of this run share, and with whom.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) target: Target,
    kept: Option<Arc<Kept>>,
}

impl Common {
    /// What the policy says, from the file if one is named.
    ///
    /// # Errors
    ///
    /// A file that cannot be gone on from. One that cannot be had for the moment is done without: to run the command
    /// matters more.
    pub(super) fn of(
        args: &StateArgs,
        resolved: &Resolved,
        policy: &Policy,
        command: &[OsString],
        epoch: Epoch,
    ) -> Result<Self, Error> {
        // Attempts of one run come one after another: there is nothing to hedge, and nobody to keep out.
        let mut common = CommonPolicy { bulkhead: None, hedge: None, ..resolved.common().clone() };
        let key = args.key.clone().unwrap_or_else(|| default_key(command));
        let retrier = Retrier::new(policy.clone());
        let Some(path) = &args.file else {
            let target = retrier.common(common).build().map_err(refused)?.at(&key);
            return Ok(Self { target, kept: None });
        };
        if common.breaker.is_none() && common.budgets.is_empty() {
            common.breaker = Some(default_breaker());
        }
        let kept = Arc::new(Kept::of(path, &key, &common, resolved, epoch).map_err(refused)?);
        let rest = CommonPolicy { breaker: None, budgets: Vec::new(), ..common };
        let retrier = kept.parts.iter().fold(retrier.common(rest), |retrier, part| match &part.what {
            What::Breaker(_, breaker) => retrier.breaker_of(breaker),
            What::Budget(_, budget) => retrier.budget_of(budget),
        });
        kept.begin()?;
        let keeper: Arc<dyn Keeper> = kept.clone();
        let target = retrier.keeper(keeper).build().map_err(refused)?.at(&key);
        Ok(Self { target, kept: Some(kept) })
    }

    /// What has to be said about the file, once each.
    pub(super) fn remarks(&self) -> Vec<String> {
        let Some(kept) = &self.kept else { return Vec::new() };
        let Remarks { all, told } = &mut *lock(&kept.remarks);
        let new = all.iter().skip(std::mem::replace(told, all.len()));
        new.cloned().collect()
    }

    /// How long the breaker stays open yet.
    pub(super) fn open_for(&self, now: Timestamp) -> Option<Duration> {
        let ready = self.target.breaker()?.with(|breaker| breaker.ready_at(now))?;
        Some(ready.since(now))
    }
}

/// The parts that are kept in a file.
#[derive(Debug)]
struct Kept {
    store: Store,
    parts: Vec<KeptPart>,
    epoch: Epoch,
    /// The file while it is ours.
    session: Mutex<Option<Session>>,
    /// Whether it could not be had once: then this run asks no more, for asking may take its time.
    given_up: AtomicBool,
    remarks: Mutex<Remarks>,
}

/// What is worth a line, and how much of it has been told.
#[derive(Debug, Default)]
struct Remarks {
    all: Vec<String>,
    told: usize,
}

#[derive(Debug)]
struct KeptPart {
    /// Its name in the file.
    id: String,
    /// What it is, as a policy file has it.
    policy: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Breaker(BreakerPolicy, Locked<Breaker>),
    Budget((BudgetPolicy, Ratio), Locked<Budget>),
}

/// Parts that have not changed for so long are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Kept {
    fn of(
        path: &Path,
        key: &str,
        common: &CommonPolicy,
        resolved: &Resolved,
        epoch: Epoch,
    ) -> Result<Self, relent::PolicyError> {
        let mut parts = Vec::new();
        let text = |common| common_to_toml(&common).trim_end().to_owned();
        // What all policies of the file have in common, they have in common here too.
        let id = |what: &str, home: Option<&Home>, own: String| match home {
            Some(Home { name: Some(name), scope: Scope::Process }) => format!("[{what}s.{name}]"),
            _ => own,
        };
        if let Some(policy) = &common.breaker {
            let breaker = Breaker::new(policy.clone(), RandomState::new().hash_one(key))?;
            parts.push(KeptPart {
                id: id("breaker", resolved.breaker_home(), format!("{key} breaker")),
                policy: text(CommonPolicy { breaker: Some(policy.clone()), ..CommonPolicy::default() }),
                what: What::Breaker(policy.clone(), Locked::new(breaker)),
            });
        }
        for (index, (policy, reserve)) in common.budgets.iter().enumerate() {
            let number = if index == 0 { String::new() } else { format!(" {}", index + 1) };
            let own = format!("{key} budget{number}");
            parts.push(KeptPart {
                id: id("budget", resolved.budget_homes().get(index), own),
                policy: text(CommonPolicy { budgets: vec![(*policy, *reserve)], ..CommonPolicy::default() }),
                what: What::Budget((*policy, *reserve), Locked::new(full(*policy, *reserve)?)),
            });
        }
        Ok(Self {
            store: Store::at(path),
            parts,
            epoch,
            session: Mutex::default(),
            given_up: AtomicBool::new(false),
            remarks: Mutex::default(),
        })
    }

    /// Looks into the file for the first time: what nobody could go on from is refused now.
    fn begin(&self) -> Result<(), Error> {
        let session = match self.store.open() {
            Ok(session) => session,
            Err(Trouble::Refused(what)) => {
                return Err(Error::usage(format!("--state {what}"))
                    .help("move the file away to begin anew, or name another one"));
            }
            Err(Trouble::Passing(what)) => {
                self.give_up(&what);
                return Ok(());
            }
        };
        for part in &self.parts {
            if session.record.parts.get(&part.id).is_some_and(|known| known.policy != part.policy) {
                self.remark(format!("the policy of \"{}\" has changed: it begins anew", part.id));
            }
        }
        self.take_up(session);
        self.store();
        Ok(())
    }

    /// Goes on from what the file has.
    fn take_up(&self, session: Session) {
        let now = self.epoch.now();
        for part in &self.parts {
            if let Some(known) = session.record.parts.get(&part.id) {
                part.restore(known, now);
            }
        }
        *lock(&self.session) = Some(session);
    }

    fn give_up(&self, what: &str) {
        self.given_up.store(true, Ordering::Relaxed);
        self.remark(format!("state file {what}; going on without it"));
    }

    fn remark(&self, what: String) {
        let Remarks { all, .. } = &mut *lock(&self.remarks);
        if !all.contains(&what) {
            all.push(what);
        }
    }
}

impl Keeper for Kept {
    fn fetch(&self) {
        if self.given_up.load(Ordering::Relaxed) {
            return;
        }
        match self.store.open() {
            Ok(session) => self.take_up(session),
            Err(Trouble::Refused(what) | Trouble::Passing(what)) => self.give_up(&what),
        }
    }

    fn store(&self) {
        let Some(mut session) = lock(&self.session).take() else { return };
        let now = self.epoch.now().as_nanos();
        for part in &self.parts {
            let Some(state) = part.state() else { continue };
            let known = session.record.parts.get(&part.id);
            if known.is_none_or(|known| known.state != state || known.policy != part.policy) {
                let policy = part.policy.clone();
                session.record.parts.insert(part.id.clone(), Part { policy, used: now, state });
            }
        }
        let oldest = now.saturating_sub(u64::try_from(FORGOTTEN_AFTER.as_nanos()).unwrap_or(u64::MAX));
        session.record.parts.retain(|_, part| part.used >= oldest);
        if let Err(Trouble::Refused(what) | Trouble::Passing(what)) = self.store.close(session) {
            self.remark(format!("state file {what}; what this run has seen may get lost"));
        }
    }
}

impl KeptPart {
    /// Goes on from what the file has, unless that was another part.
    fn restore(&self, known: &Part, now: Timestamp) {
        if known.policy != self.policy {
            return;
        }
        match (&self.what, &known.state) {
            (What::Breaker(policy, breaker), State::Breaker(record)) => {
                let Some((snapshot, under_way)) = record.restored() else { return };
                let seed = RandomState::new().hash_one(&self.id);
                if let Ok(restored) = Breaker::restore(policy.clone(), seed, &snapshot, now) {
                    breaker.with(|breaker| *breaker = restored.with_under_way(&under_way));
                }
            }
            (What::Budget((policy, reserve), budget), state) => {
                let Some(snapshot) = state.restored_budget() else { return };
                if let Ok(whole) = full(*policy, *reserve) {
                    budget.with(|budget| *budget = whole.restored(&snapshot, now));
                }
            }
            _ => {}
        }
    }

    /// None: what it holds has no meaning for another process.
    fn state(&self) -> Option<State> {
        match &self.what {
            What::Breaker(_, breaker) => breaker.with(|breaker| {
                let record = record::Breaker::of(&breaker.snapshot(), &breaker.under_way());
                Some(State::Breaker(Box::new(record)))
            }),
            What::Budget(_, budget) => budget.with(|budget| State::of_budget(&budget.snapshot())),
        }
    }
}

fn full(policy: BudgetPolicy, reserve: Ratio) -> Result<Budget, relent::PolicyError> {
    Budget::new(policy)?.reserve(reserve)
}

/// The program's name, for people, and a sum of the whole command line: two jobs must not share a breaker because both are
/// `sh -c`, and what stands in arguments, such as a password, does not belong in a file.
fn default_key(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    // FNV-1a, which stays the same from run to run.
    let bytes = command.iter().flat_map(|word| word.as_encoded_bytes().iter().chain(&[0]));
    let sum = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{:08x}", program.display(), sum as u32)
}

fn refused(error: relent::PolicyError) -> Error {
    Error::usage(error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
