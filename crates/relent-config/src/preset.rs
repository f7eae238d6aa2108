//! Presets: the retry behaviour of systems that people know, by name.
//!
//! A preset is data: the keys of a policy file, with a word about where its numbers are from. It lies under a policy as a
//! base does. One that depends on more than its name, such as on the environment, makes its keys when it is asked for.

mod aws;
mod foreign;
mod libraries;
mod schedules;
mod tenacity;

use std::fmt;
use std::sync::Arc;

use crate::diagnostic::{Code, Errors, Problem};
use crate::flags::Flag;
use crate::names;
use crate::resolved::{Origin, Resolved};
use crate::source::{Place, Source, Sources};
use crate::syntax;
use crate::text::{one_of, shorten};
use crate::tree::{self, Layer, Node, Table, Value};

/// All presets, family by family.
const FAMILIES: &[&[Preset]] =
    &[aws::PRESETS, foreign::PRESETS, schedules::PRESETS, libraries::PRESETS, tenacity::PRESETS];

/// The retry behaviour of a system that people know.
///
/// ```
/// use relent_config::{File, Preset};
///
/// let preset = Preset::named("aws-legacy").unwrap();
/// assert_eq!(preset.with(&[], None)?.policy().max_attempts(), Some(5));
///
/// let file = File::parse("version = 1\n[policies.tables]\npreset = \"aws-legacy\"\nmax_attempts = 3", "relent.toml")?;
/// assert_eq!(file.policy("tables")?.max_attempts(), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Preset {
    name: &'static str,
    description: &'static str,
    system: &'static str,
    version: &'static str,
    sources: &'static [&'static str],
    checked: &'static str,
    differs: &'static [&'static str],
    /// The preset that this one lies over.
    over: Option<&'static str>,
    keys: Keys,
}

/// What a preset says.
enum Keys {
    /// Always the same: the text of a policy.
    Text(&'static str),
    /// What is made of the parameters and of the [`Surroundings`].
    Made {
        parameters: &'static [&'static str],
        example: &'static str,
        make: fn(&mut Making<'_>) -> Option<Table>,
    },
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::Made { parameters, .. } => f.debug_struct("Made").field("parameters", parameters).finish(),
        }
    }
}

impl Preset {
    /// All presets, those of one system together.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        FAMILIES.iter().flat_map(|family| family.iter())
    }

    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|preset| preset.name == name)
    }

    /// The preset's name: `"aws-standard"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it is, in one line.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// The system that it follows.
    pub fn system(&self) -> &'static str {
        self.system
    }

    /// The versions of that system in which its numbers were looked up.
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Where its numbers are from.
    pub fn sources(&self) -> &'static [&'static str] {
        self.sources
    }

    /// The day on which they were looked up, as `YYYY-MM-DD`.
    pub fn checked(&self) -> &'static str {
        self.checked
    }

    /// Where it differs from its system, and why.
    pub fn differs(&self) -> &'static [&'static str] {
        self.differs
    }

    /// The parameters that it takes beside its `name`.
    pub fn parameters(&self) -> &'static [&'static str] {
        match &self.keys {
            Keys::Text(_) => &[],
            Keys::Made { parameters, .. } => parameters,
        }
    }

    /// How its parameters are written in a policy; none if it takes none.
    pub fn example(&self) -> Option<&'static str> {
        match &self.keys {
            Keys::Text(_) => None,
            Keys::Made { example, .. } => Some(example),
        }
    }

    /// The preset as a policy, with command-line options over it.
    ///
    /// # Errors
    ///
    /// What is wrong with the options, or with the surroundings that it looks at.
    pub fn with(
        &'static self,
        flags: &[Flag<'_>],
        surroundings: Option<&dyn Surroundings>,
    ) -> Result<Resolved, Errors> {
        let place = Place::new(0, 0..0);
        let value = Value::String(self.name.to_owned());
        let node = Node { key: place.clone(), place, layer: Layer(0), value };
        crate::file::alone(Table::from([("preset".to_owned(), node)]), flags, surroundings)
    }
}

/// What a preset may look at beside the policy file: variables and files of the machine. The reader opens nothing by
/// itself.
pub trait Surroundings: fmt::Debug + Send + Sync {
    /// The value of an environment variable; none if it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// The text of a file, by a path that is absolute or begins at the working directory; none if there is no such
    /// file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    fn file(&self, path: &str) -> Result<Option<String>, String>;
}

/// What a preset is made from, and in.
pub(crate) struct Making<'a> {
    /// Its parameters.
    pub(crate) parameters: &'a Table,
    /// Where the policy names it.
    pub(crate) named: &'a Node,
    pub(crate) surroundings: Option<&'a dyn Surroundings>,
    pub(crate) problems: &'a mut Vec<Problem>,
    /// What was found out and is worth to be shown as if it had been a parameter.
    told: &'a mut Table,
    shelf: &'a mut Shelf,
}

/// All texts of one reading, and the layers that values were written in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) sources: Sources,
    /// By the number of the [`Layer`].
    pub(crate) layers: Vec<Origin>,
}

impl Shelf {
    /// The index of a text that may have been put here before.
    fn put(&mut self, source: Source) -> usize {
        let same = |known: &Arc<Source>| {
            known.name == source.name && known.kind == source.kind && known.text == source.text
        };
        self.sources.0.iter().position(same).unwrap_or_else(|| {
            self.sources.0.push(Arc::new(source));
            self.sources.0.len() - 1
        })
    }

    fn layer(&mut self, origin: Origin) -> Layer {
        let known = self.layers.iter().position(|known| *known == origin);
        Layer(known.unwrap_or_else(|| {
            self.layers.push(origin);
            self.layers.len() - 1
        }))
    }
}

/// The table with the keys of its preset under it, and that; none if it has no preset.
pub(crate) fn under(
    table: &Table,
    shelf: &mut Shelf,
    surroundings: Option<&dyn Surroundings>,
) -> Result<Option<(Table, &'static Preset)>, Vec<Problem>> {
    let Some(node) = table.get("preset").filter(|node| node.string() != Some("none")) else {
        return Ok(None);
    };
    let (mut problems, mut told) = (Vec::new(), Table::new());
    let keys = find(node, &mut problems).and_then(|(preset, parameters)| {
        let none = Table::new();
        let making = Making {
            parameters: parameters.unwrap_or(&none),
            named: node,
            surroundings,
            problems: &mut problems,
            told: &mut told,
            shelf,
        };
        Some((tree::merge(&making.keys_of(preset)?, table), preset))
    });
    let keys = keys.map(|(table, preset)| (with_told(table, told), preset));
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// What is wrong where a preset's value meets others is told where the preset is named: nobody can change it elsewhere.
pub(crate) fn at_its_name(problem: Problem, shelf: &Shelf, named: Option<&Node>) -> Problem {
    let embedded = |place: &Place| shelf.sources.is_embedded(place);
    match (problem.place.as_ref().filter(|place| embedded(place)), named) {
        (Some(_), Some(node)) => Problem { place: Some(node.place.clone()), label: String::new(), ..problem },
        _ => problem,
    }
}

/// The preset that is named, and its parameters.
fn find<'n>(node: &'n Node, problems: &mut Vec<Problem>) -> Option<(&'static Preset, Option<&'n Table>)> {
    let (name_node, parameters) = match &node.value {
        Value::Table(table) => match table.get("name") {
            Some(name) => (name, Some(table)),
            None => {
                let problem = Problem::new(Code::Missing, &node.place, "`preset` has no `name`");
                problems.push(problem.help("write `preset = { name = \"aws-env\" }`"));
                return None;
            }
        },
        _ => (node, None),
    };
    let Some(name) = name_node.string() else {
        let message = format!("`preset` is {}", name_node.value.kind());
        let problem = Problem::new(Code::WrongType, &name_node.place, message);
        problems.push(problem.label("expected the name of a preset"));
        return None;
    };
    let Some(preset) = Preset::named(name) else {
        problems.push(unknown(name, &name_node.place));
        return None;
    };
    let before = problems.len();
    for (key, node) in parameters.into_iter().flatten().filter(|(key, _)| *key != "name") {
        if !preset.parameters().contains(&key.as_str()) {
            problems.push(unknown_parameter(preset, key, node));
        }
    }
    (problems.len() == before).then_some((preset, parameters))
}

fn unknown(name: &str, place: &Place) -> Problem {
    let problem =
        Problem::new(Code::UnknownPreset, place, format!("there is no preset \"{}\"", shorten(name)));
    let known = || Preset::all().map(Preset::name);
    let near = names::nearest(name, known()).or_else(|| known().find(|known| begins_alike(name, known)));
    let problem = problem.maybe_help(near.map(|near| format!("did you mean \"{near}\"?")));
    problem.help(format!("presets: {}", known().collect::<Vec<_>>().join(", ")))
}

/// `aws` for `aws-standard`.
fn begins_alike(name: &str, known: &str) -> bool {
    !name.is_empty() && known.starts_with(&name.to_lowercase().replace('_', "-"))
}

fn unknown_parameter(preset: &Preset, key: &str, node: &Node) -> Problem {
    let message = format!("unknown key `{}` for the preset \"{}\"", shorten(key), preset.name);
    let problem = Problem::new(Code::UnknownKey, &node.key, message);
    if preset.parameters().is_empty() {
        return problem.help("it takes none; what the policy says itself stands beside `preset`");
    }
    match names::nearest(key, preset.parameters().iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.label(format!("expected {}", one_of(preset.parameters()))),
    }
}

/// The preset's node with what was found out about it.
fn with_told(mut table: Table, told: Table) -> Table {
    if let Some(node) = table.get_mut("preset")
        && !told.is_empty()
    {
        let mut shown = match &node.value {
            Value::Table(parameters) => parameters.clone(),
            _ => Table::from([("name".to_owned(), node.clone())]),
        };
        shown.extend(told);
        node.value = Value::Table(shown);
    }
    table
}

impl Making<'_> {
    /// What a preset and those under it say.
    fn keys_of(mut self, preset: &'static Preset) -> Option<Table> {
        match &preset.keys {
            Keys::Text(_) => self.preset(preset.name),
            Keys::Made { make, .. } => make(&mut self),
        }
    }

    /// The keys of a preset that are always the same.
    pub(crate) fn preset(&mut self, name: &str) -> Option<Table> {
        let preset = Preset::named(name)?;
        let Keys::Text(text) = &preset.keys else { return None };
        let own = self.embedded(preset.name, text)?;
        match preset.over {
            Some(below) => Some(tree::merge(&self.preset(below)?, &own)),
            None => Some(own),
        }
    }

    /// The value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.surroundings?.variable(name)
    }

    /// Puts a text beside the policy file, for places in it.
    pub(crate) fn put(&mut self, source: Source) -> usize {
        self.shelf.put(source)
    }

    /// A text that was put there.
    pub(crate) fn source(&self, index: usize) -> Option<Arc<Source>> {
        self.shelf.sources.0.get(index).cloned()
    }

    /// The layer of values that come from there.
    pub(crate) fn layer(&mut self, origin: Origin) -> Layer {
        self.shelf.layer(origin)
    }

    /// Shows a value as if it had been a parameter.
    pub(crate) fn tell(&mut self, key: &str, node: Node) {
        self.told.insert(key.to_owned(), node);
    }

    /// The keys that a text of this crate says.
    fn embedded(&mut self, name: &'static str, text: &str) -> Option<Table> {
        self.written(Source::embedded(name, text), Origin::Preset(name))
    }

    /// The keys that a text says.
    fn written(&mut self, source: Source, origin: Origin) -> Option<Table> {
        let index = self.put(source);
        let layer = self.layer(origin);
        match syntax::document(self.source(index)?.as_ref(), index) {
            Ok(mut table) => {
                table.values_mut().for_each(|node| node.set_layer(layer));
                Some(table)
            }
            Err(found) => {
                self.problems.extend(found);
                None
            }
        }
    }
}
