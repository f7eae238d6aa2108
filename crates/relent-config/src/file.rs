//! The policy file as a whole: names, bases, and what comes out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use relent_core::Policy;

use crate::diagnostic::{Code, Errors, Problem};
use crate::extension::{Checks, Entry};
use crate::flags::{self, Flag};
use crate::names::{self, Section};
use crate::preset::{self, Shelf, Surroundings};
use crate::read::{self, Context, Named, Read};
use crate::resolved::{BuiltIn, Origin, Resolved};
use crate::source::{Place, Source, Sources};
use crate::syntax;
use crate::tree::{self, Layer, Node, Table, Value};

/// The most policies that one file may have.
const MAX_POLICIES: usize = 1000;

/// The longest chain of bases.
const MAX_BASES: usize = 16;

/// A policy file, read and checked as a whole.
///
/// ```
/// use std::time::Duration;
/// use relent_config::File;
///
/// let file = File::parse(
///     r#"
///     version = 1
///
///     [policies.default]
///     backoff.cap = "5s"
///
///     [policies.payments]
///     base = "default"
///     max_attempts = 2
///     "#,
///     "relent.toml",
/// )?;
/// let policy = file.policy("payments")?;
/// assert_eq!(policy.max_attempts(), Some(2));
/// assert_eq!(policy.backoff().longest(), Some(Duration::from_secs(5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct File {
    /// The text of the file is the first of its texts.
    shelf: Shelf,
    extensions: Vec<String>,
    /// The names in the order of the file.
    names: Vec<String>,
    /// The merged tables, by the number of the policy.
    merged: Vec<Table>,
    resolved: Vec<Resolved>,
    named: Named,
    tables: BTreeMap<String, Node>,
}

/// Reads policy files that have tables of other crates in them.
///
/// Tables such as `http` in a policy or `[scenarios]` beside the policies belong to the crates that act on them. Who
/// reads a file declares the tables that they own; all others are refused like any unknown key. What is in them is
/// merged by inheritance and handed back as an [`Entry`], whose errors look like all others.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    in_policies: Vec<String>,
    beside: Vec<String>,
    surroundings: Option<Arc<dyn Surroundings>>,
}

impl Reader {
    /// A reader that knows no tables but the policies'.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a table that policies may have: `"http"`.
    #[must_use]
    pub fn policy_table(mut self, name: &str) -> Self {
        self.in_policies.push(name.to_owned());
        self
    }

    /// Declares a table beside `policies`: `"scenarios"`.
    #[must_use]
    pub fn table(mut self, name: &str) -> Self {
        self.beside.push(name.to_owned());
        self
    }

    /// Lets presets look at the environment (`aws-env`). Without it, they refuse to be used.
    #[must_use]
    pub fn surroundings(mut self, surroundings: Arc<dyn Surroundings>) -> Self {
        self.surroundings = Some(surroundings);
        self
    }

    /// Reads a text. `name` is the file's name, for messages.
    ///
    /// # Errors
    ///
    /// All that is wrong with the text, in order of place.
    pub fn parse(&self, text: &str, name: &str) -> Result<File, Errors> {
        let mut shelf =
            Shelf { sources: Sources(vec![Arc::new(Source::file(name, text))]), layers: Vec::new() };
        self.read(&mut shelf).map_err(|problems| Errors::locate(problems, &shelf.sources))
    }

    fn read(&self, shelf: &mut Shelf) -> Result<File, Vec<Problem>> {
        let Some(source) = shelf.sources.0.first().cloned() else { return Err(Vec::new()) };
        let source = source.as_ref();
        let mut root = syntax::document(source, 0)?;
        let mut problems = check_version(&root, source)?;
        problems.extend(read::unknown_keys(Section::Root, &self.beside, "", &root));
        let (names, own) = take_policies(&mut root, &mut problems);
        let named = take_named(&mut root, &shelf.sources, &mut problems);
        let mut file = File {
            named,
            shelf: Shelf::default(),
            extensions: self.in_policies.clone(),
            names: names.iter().map(|(name, _)| name.clone()).collect(),
            merged: Vec::new(),
            resolved: Vec::new(),
            tables: BTreeMap::new(),
        };
        shelf.layers = file.names.iter().cloned().map(Origin::Policy).collect();
        let bases = Bases::of(&names, &own, &mut problems);
        for (index, table) in own.iter().enumerate() {
            let chain = bases.chain(index);
            let mut merged = Table::new();
            for base in chain.iter().rev().filter_map(|base| own.get(*base)) {
                merged = tree::merge(&merged, &without_own_matters(base));
            }
            let merged = tree::merge(&merged, table);
            let (merged, preset, broken) = match preset::under(&merged, shelf, self.surroundings.as_deref()) {
                Ok(Some((merged, preset))) => (merged, Some(preset), false),
                Ok(None) => (merged, None, false),
                Err(found) => {
                    problems.extend(found);
                    (merged, None, true)
                }
            };
            let context = Context {
                sources: &shelf.sources,
                layers: &shelf.layers,
                own: Layer(index),
                built_in: BuiltIn::Library,
                extensions: &file.extensions,
                named: &file.named,
                incomplete: broken || bases.is_broken(index),
            };
            let read = read::policy(&merged, context);
            match read {
                Ok(read) => {
                    let bases = chain.iter().filter_map(|base| file.names.get(*base).cloned()).collect();
                    let name = file.names.get(index).cloned();
                    let resolved = Resolved::new(name, bases, read, &shelf.sources);
                    file.resolved.push(resolved.over(preset));
                    file.merged.push(merged);
                }
                Err(found) => {
                    let named = merged.get("preset");
                    problems
                        .extend(found.into_iter().map(|problem| preset::at_its_name(problem, shelf, named)));
                }
            }
        }
        for name in &self.beside {
            match root.remove(name) {
                Some(node) if node.table().is_some() => {
                    file.tables.insert(name.clone(), node);
                }
                Some(node) => problems.push(read::mistyped(&node, name, "a table")),
                None => {}
            }
        }
        file.shelf = shelf.clone();
        if problems.is_empty() { Ok(file) } else { Err(problems) }
    }
}

impl File {
    /// Reads a text without I/O. `name` is the file's name, for messages.
    ///
    /// # Errors
    ///
    /// All that is wrong with the text, in order of place.
    pub fn parse(text: &str, name: &str) -> Result<Self, Errors> {
        Reader::new().parse(text, name)
    }

    /// The name of the file, as it was given.
    pub fn file_name(&self) -> &str {
        self.shelf.sources.0.first().map_or("", |source| source.name.as_str())
    }

    /// The names of the policies, in the order of the file.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The policy of this name.
    ///
    /// # Errors
    ///
    /// [`UnknownPolicy`] with the nearest name.
    pub fn policy(&self, name: &str) -> Result<&Policy, UnknownPolicy> {
        self.resolved(name).map(Resolved::policy)
    }

    /// The policy of this name, with where its values come from.
    ///
    /// # Errors
    ///
    /// [`UnknownPolicy`] with the nearest name.
    pub fn resolved(&self, name: &str) -> Result<&Resolved, UnknownPolicy> {
        self.index(name).and_then(|index| self.resolved.get(index)).ok_or_else(|| self.unknown(name))
    }

    /// The description of the policy of this name.
    pub fn description(&self, name: &str) -> Option<&str> {
        self.resolved(name).ok()?.description()
    }

    /// The policy named `default`, which drivers take when none is named.
    pub fn default_policy(&self) -> Option<&Resolved> {
        self.resolved("default").ok()
    }

    /// The policies, in the order of the file.
    pub fn policies(&self) -> std::slice::Iter<'_, Resolved> {
        self.resolved.iter()
    }

    /// The table of this name beside `policies`, if another crate owns it and the [`Reader`] was told so.
    pub fn table(&self, name: &str) -> Option<Entry<'_>> {
        self.tables.get(name).map(|node| Entry::new(name, node))
    }

    /// For telling what is wrong in such a table, or in those of all policies at once.
    pub fn checks(&self) -> Checks {
        Checks::new(&self.shelf.sources)
    }

    /// The policy of this name with command-line options over it, as one more layer with the same checks.
    ///
    /// # Errors
    ///
    /// What is wrong with the options, named by the option; or the name is not known.
    pub fn policy_with(&self, name: &str, flags: &[Flag<'_>]) -> Result<Resolved, Errors> {
        let mut shelf = self.shelf.clone();
        let Some((index, merged)) = self.index(name).and_then(|index| Some((index, self.merged.get(index)?)))
        else {
            let unknown = self.unknown(name);
            let help = unknown.help();
            let problem = Problem::anywhere(Code::UnknownPolicy, unknown.message()).maybe_help(help);
            return Err(Errors::locate(vec![problem], &shelf.sources));
        };
        let bases = self.resolved.get(index).map(|resolved| resolved.bases.clone()).unwrap_or_default();
        let below = Below {
            table: merged,
            built_in: BuiltIn::Library,
            extensions: &self.extensions,
            named: &self.named,
        };
        let read = layered(below, flags, &mut shelf)?;
        let preset = self.resolved.get(index).and_then(Resolved::preset);
        Ok(Resolved::new(Some(name.to_owned()), bases, read, &shelf.sources).over(preset))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// That there is no policy of this name, and which one was probably meant.
    pub fn unknown(&self, name: &str) -> UnknownPolicy {
        let near = names::nearest(name, self.names()).map(str::to_owned);
        UnknownPolicy {
            name: name.to_owned(),
            file: self.file_name().to_owned(),
            near,
            known: self.names.clone(),
        }
    }
}

impl BuiltIn {
    /// The built-in policy.
    pub fn policy(self) -> Policy {
        let (attempts, (initial, _), (cap, _)) = (self.attempts().0, self.initial(), self.cap());
        let builder = Policy::exponential(initial).max_attempts(attempts).cap(cap);
        builder.build().unwrap_or_default()
    }

    /// The built-in policy with command-line options over it: what holds where there is no file.
    ///
    /// # Errors
    ///
    /// What is wrong with the options, named by the option.
    pub fn with(self, flags: &[Flag<'_>]) -> Result<Resolved, Errors> {
        let mut shelf = Shelf { sources: Sources(vec![Arc::new(Source::file("", ""))]), layers: Vec::new() };
        let below = Below { table: &Table::new(), built_in: self, extensions: &[], named: &Named::default() };
        let read = layered(below, flags, &mut shelf)?;
        Ok(Resolved::new(None, Vec::new(), read, &shelf.sources))
    }
}

/// A policy that stands in no file, with options over it.
pub(crate) fn alone(
    table: Table,
    flags: &[Flag<'_>],
    surroundings: Option<&dyn Surroundings>,
) -> Result<Resolved, Errors> {
    let mut shelf = Shelf { sources: Sources(vec![Arc::new(Source::file("", ""))]), layers: Vec::new() };
    let under = preset::under(&table, &mut shelf, surroundings);
    let (table, preset) = match under.map_err(|problems| Errors::locate(problems, &shelf.sources))? {
        Some((table, preset)) => (table, Some(preset)),
        None => (table, None),
    };
    let built_in = BuiltIn::Library;
    let below = Below { table: &table, built_in, extensions: &[], named: &Named::default() };
    let read = layered(below, flags, &mut shelf)?;
    Ok(Resolved::new(None, Vec::new(), read, &shelf.sources).over(preset))
}

/// What options lie over.
struct Below<'a> {
    table: &'a Table,
    built_in: BuiltIn,
    extensions: &'a [String],
    named: &'a Named,
}

/// A policy's table with options over it.
fn layered(below: Below<'_>, flags: &[Flag<'_>], shelf: &mut Shelf) -> Result<Read, Errors> {
    let Below { table, built_in, extensions, named } = below;
    let sources = &mut shelf.sources;
    let above = flags::table(flags, sources).map_err(|problems| Errors::locate(problems, sources))?;
    let layers = &shelf.layers;
    let own = Layer::FLAGS;
    let context = Context { sources, layers, own, built_in, extensions, named, incomplete: false };
    read::policy(&tree::merge(table, &above), context).map_err(|problems| Errors::locate(problems, sources))
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    name: String,
    file: String,
    near: Option<String>,
    known: Vec<String>,
}

impl UnknownPolicy {
    /// The name that was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name that was probably meant.
    pub fn nearest(&self) -> Option<&str> {
        self.near.as_deref()
    }

    fn message(&self) -> String {
        format!("{} has no policy \"{}\"", self.file, self.name.escape_debug())
    }

    fn help(&self) -> Option<String> {
        match (&self.near, self.known.as_slice()) {
            (Some(near), _) => Some(format!("did you mean \"{near}\"?")),
            (None, []) => Some("it has no policies at all; one begins with [policies.NAME]".to_owned()),
            (None, known) if known.len() <= 10 => Some(format!("it has: {}", known.join(", "))),
            (None, _) => None,
        }
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.help().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl std::error::Error for UnknownPolicy {}

/// A file says by which rules it is written, so that later versions may have others. Of another version nothing more
/// can be said; where it is missing, the rest is read as version 1.
fn check_version(root: &Table, source: &Source) -> Result<Vec<Problem>, Vec<Problem>> {
    match root.get("version") {
        None => {
            let first = source.text.lines().next().unwrap_or_default().len();
            let problem = Problem::new(Code::Version, &Place::new(0, 0..first), "`version` is missing");
            Ok(vec![problem.help("begin the file with `version = 1`")])
        }
        Some(Node { value: Value::Integer(Some(1)), .. }) => Ok(Vec::new()),
        Some(node) => {
            let problem =
                Problem::new(Code::Version, &node.place, "this version is not known").label("expected 1");
            Err(vec![problem.help("write `version = 1`, or use a newer relent for this file")])
        }
    }
}

/// The policies in the order of the file, each marked with its layer.
fn take_policies(root: &mut Table, problems: &mut Vec<Problem>) -> (Vec<(String, Node)>, Vec<Table>) {
    let Some(node) = root.remove("policies") else { return (Vec::new(), Vec::new()) };
    let Value::Table(table) = node.value else {
        let message = format!("`policies` is {}", node.value.kind());
        problems.push(
            Problem::new(Code::WrongType, &node.place, message).label("expected tables [policies.NAME]"),
        );
        return (Vec::new(), Vec::new());
    };
    let mut policies: Vec<(String, Node)> = table.into_iter().collect();
    policies.sort_by(|(_, one), (_, other)| one.key.cmp(&other.key));
    if let Some((_, node)) = policies.get(MAX_POLICIES) {
        let message = format!("{} policies; at most {MAX_POLICIES} are read", policies.len());
        problems.push(Problem::new(Code::Limit, &node.key, message));
        policies.clear();
    }
    policies.retain(|(name, node)| check_policy(name, node, problems));
    let mut own = Vec::new();
    for (index, (_, node)) in policies.iter_mut().enumerate() {
        node.set_layer(Layer(index));
        own.push(node.table().cloned().unwrap_or_default());
    }
    (policies, own)
}

/// The budgets and breakers that have names.
fn take_named(root: &mut Table, sources: &Sources, problems: &mut Vec<Problem>) -> Named {
    let budgets = take_parts(root, "budgets", sources, problems, read::shared::named_budget);
    let breakers = take_parts(root, "breakers", sources, problems, read::shared::named_breaker);
    Named { budgets, breakers }
}

/// What was read of each name in the table `kind`; none of what is wrong, which is told.
fn take_parts<T>(
    root: &mut Table,
    kind: &str,
    sources: &Sources,
    problems: &mut Vec<Problem>,
    read: fn(&str, &Node, Context<'_>) -> Result<T, Vec<Problem>>,
) -> BTreeMap<String, Option<T>> {
    let Some(node) = root.remove(kind) else { return BTreeMap::new() };
    let Value::Table(table) = node.value else {
        problems.push(read::mistyped(&node, kind, &format!("tables [{kind}.NAME]")));
        return BTreeMap::new();
    };
    if table.len() > MAX_POLICIES {
        let message = format!("{} {kind}; at most {MAX_POLICIES} are read", table.len());
        problems.push(Problem::new(Code::Limit, &node.key, message));
        return BTreeMap::new();
    }
    let mut parts = BTreeMap::new();
    for (name, node) in table {
        if name.trim().is_empty() || name == "none" || name.chars().any(char::is_control) {
            let message = format!("this is no name for one of the {kind}");
            problems.push(Problem::new(Code::BadValue, &node.key, message));
            continue;
        }
        let context = Context {
            sources,
            layers: &[Origin::Shared(format!("{kind}.{name}"))],
            own: node.layer,
            built_in: BuiltIn::Library,
            extensions: &[],
            named: &Named::default(),
            incomplete: false,
        };
        let part = match read(&name, &node, context) {
            Ok(part) => Some(part),
            Err(found) => {
                problems.extend(found);
                None
            }
        };
        parts.insert(name, part);
    }
    parts
}

fn check_policy(name: &str, node: &Node, problems: &mut Vec<Problem>) -> bool {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        problems.push(Problem::new(Code::BadValue, &node.key, "this is no name for a policy"));
        return false;
    }
    if node.table().is_some() {
        return true;
    }
    let problem =
        Problem::new(Code::WrongType, &node.key, format!("`policies.{name}` is {}", node.value.kind()));
    let problem = problem.label("expected a policy, which is a table");
    let misplaced = Section::Policy.keys().contains(&name);
    problems.push(
        problem.maybe_help(misplaced.then(|| format!("`{name}` belongs in a policy: [policies.NAME]"))),
    );
    false
}

/// What a policy does not inherit.
fn without_own_matters(base: &Table) -> Table {
    let inherited = |key: &String| !matches!(key.as_str(), "description" | "base");
    base.iter().filter(|(key, _)| inherited(key)).map(|(key, node)| (key.clone(), node.clone())).collect()
}

/// Which policy is based on which.
struct Bases {
    /// By the number of the policy. None: has no base, or a bad one.
    base: Vec<Option<usize>>,
    /// Those whose own base is bad.
    bad: Vec<bool>,
}

impl Bases {
    fn of(policies: &[(String, Node)], own: &[Table], problems: &mut Vec<Problem>) -> Self {
        let index: BTreeMap<&str, usize> =
            policies.iter().enumerate().map(|(index, (name, _))| (name.as_str(), index)).collect();
        let mut bases = Self { base: vec![None; own.len()], bad: vec![false; own.len()] };
        for (number, table) in own.iter().enumerate() {
            let Some(node) = table.get("base") else { continue };
            let found = node.string().and_then(|name| index.get(name).copied());
            if found.is_none() {
                problems.push(bad_base(node, policies));
            }
            bases.set(number, found);
        }
        bases.break_cycles(policies, own, problems);
        bases
    }

    fn set(&mut self, number: usize, base: Option<usize>) {
        if let (Some(slot), Some(bad)) = (self.base.get_mut(number), self.bad.get_mut(number)) {
            (*slot, *bad) = (base, base.is_none());
        }
    }

    fn next(&self, number: usize) -> Option<usize> {
        self.base.get(number).copied().flatten()
    }

    /// The bases of a policy, the nearest first.
    fn chain(&self, number: usize) -> Vec<usize> {
        std::iter::successors(self.next(number), |base| self.next(*base)).take(MAX_BASES).collect()
    }

    fn is_broken(&self, number: usize) -> bool {
        let bad = |number: usize| self.bad.get(number).copied().unwrap_or(false);
        bad(number) || self.chain(number).into_iter().any(bad)
    }

    /// Tells of each cycle once and of chains that are too long, and takes them apart.
    fn break_cycles(&mut self, policies: &[(String, Node)], own: &[Table], problems: &mut Vec<Problem>) {
        let name = |number: usize| policies.get(number).map_or("", |(name, _)| name.as_str());
        let place = |number: usize| {
            own.get(number).and_then(|table| table.get("base")).map(|node| node.place.clone())
        };
        for number in 0..own.len() {
            let mut path = vec![number];
            let mut at = number;
            while let Some(base) = self.next(at) {
                if base == number {
                    let names: Vec<&str> = path.iter().chain([&number]).map(|number| name(*number)).collect();
                    let message = format!("these policies are each other's base: {}", names.join(" → "));
                    let message = if path.len() == 1 {
                        format!("\"{}\" is its own base", name(number))
                    } else {
                        message
                    };
                    problems.push(Problem {
                        place: place(number),
                        ..Problem::anywhere(Code::BaseCycle, message)
                    });
                    self.set(number, None);
                    break;
                }
                if path.len() > MAX_BASES {
                    // A cycle further down is told at one of its own members.
                    if !self.leads_into_cycle(number) {
                        let message = format!("more than {MAX_BASES} bases one upon another");
                        problems.push(Problem {
                            place: place(number),
                            ..Problem::anywhere(Code::Limit, message)
                        });
                        self.set(number, None);
                    }
                    break;
                }
                path.push(base);
                at = base;
            }
        }
    }

    /// Floyd's tortoise and hare.
    fn leads_into_cycle(&self, number: usize) -> bool {
        let (mut slow, mut fast) = (Some(number), Some(number));
        loop {
            slow = slow.and_then(|at| self.next(at));
            fast = fast.and_then(|at| self.next(at)).and_then(|at| self.next(at));
            match (slow, fast) {
                (_, None) => return false,
                (slow, fast) if slow == fast => return true,
                _ => {}
            }
        }
    }
}

fn bad_base(node: &Node, policies: &[(String, Node)]) -> Problem {
    let Some(name) = node.string() else {
        let problem = Problem::new(Code::WrongType, &node.place, format!("`base` is {}", node.value.kind()));
        let problem = problem.label("expected the name of a policy");
        let help = match node.value {
            Value::Integer(_) | Value::Float(_) => {
                Some("the first wait is `backoff.initial`, with a unit".to_owned())
            }
            _ => None,
        };
        return problem.maybe_help(help);
    };
    let problem = Problem::new(
        Code::UnknownPolicy,
        &node.place,
        format!("there is no policy \"{}\"", name.escape_debug()),
    );
    let near = names::nearest(name, policies.iter().map(|(name, _)| name.as_str()));
    problem.maybe_help(near.map(|near| format!("did you mean \"{near}\"?")))
}
