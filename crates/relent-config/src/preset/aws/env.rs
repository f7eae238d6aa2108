//! What the AWS SDKs are told by the environment and by the shared config file.

use std::collections::BTreeMap;

use super::file::{self, Property};
use crate::diagnostic::{Code, Problem};
use crate::preset::Making;
use crate::resolved::Origin;
use crate::source::{Place, Source};
use crate::text::{one_of, shorten};
use crate::tree::{self, Layer, Node, Table, Value};

pub(super) const PARAMETERS: &[&str] = &["dialect", "variant", "mode"];

/// Whose reading of the settings is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Rust,
    Python,
    JavaScript,
    Go,
    Java,
}

const DIALECTS: [(&str, Dialect); 5] = [
    ("rust", Dialect::Rust),
    ("python", Dialect::Python),
    ("js", Dialect::JavaScript),
    ("go", Dialect::Go),
    ("java", Dialect::Java),
];

const VARIANTS: [(&str, Variant); 3] =
    [("none", Variant::None), ("dynamodb", Variant::DynamoDb), ("long-polling", Variant::LongPolling)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    None,
    DynamoDb,
    LongPolling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Standard,
    Adaptive,
    Legacy,
}

/// A setting, and where it is from.
struct Given {
    value: String,
    place: Place,
    layer: Layer,
}

/// The keys of the preset that is asked for, with the number of attempts.
pub(super) fn make(making: &mut Making<'_>) -> Option<Table> {
    if making.surroundings.is_none() {
        let message = "the preset \"aws-env\" needs the environment, which this program does not give it";
        making.problems.push(
            Problem::new(Code::Missing, &making.named.place, message)
                .help("name the preset that is meant, such as \"aws-standard\""),
        );
        return None;
    }
    let dialect = choice(making, "dialect", &DIALECTS);
    let variant = choice(making, "variant", &VARIANTS);
    let (dialect, variant) = (dialect?.unwrap_or(Dialect::Rust), variant?.unwrap_or(Variant::None));
    let profile = profile(making)?;
    let mode = match making.parameters.get("mode") {
        Some(node) => mode_parameter(making, node, dialect),
        None => match setting(making, "AWS_RETRY_MODE", "retry_mode", &profile, dialect) {
            Some(given) => mode(making, given, dialect),
            None => Some(if dialect == Dialect::Java { Mode::Legacy } else { Mode::Standard }),
        },
    };
    let attempts = match setting(making, "AWS_MAX_ATTEMPTS", "max_attempts", &profile, dialect) {
        Some(given) => attempts(making, given, dialect)?,
        None => None,
    };
    let mut keys = keys(making, dialect, mode?, variant)?;
    if let Some(node) = attempts {
        keys.insert("max_attempts".to_owned(), node);
    }
    Some(keys)
}

fn keys(making: &mut Making<'_>, dialect: Dialect, mode: Mode, variant: Variant) -> Option<Table> {
    // The Java SDK waits to be asked for what the others do since 2026.
    let new = making.variable("AWS_NEW_RETRIES_2026").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if dialect == Dialect::Java && !new {
        return match (mode, variant) {
            (Mode::Legacy, Variant::DynamoDb) => making.preset("aws-legacy-java-dynamodb"),
            (Mode::Legacy, _) => making.preset("aws-legacy-java"),
            (Mode::Standard, _) => making.preset("aws-standard-classic-java"),
            (Mode::Adaptive, _) => {
                let standard = making.preset("aws-standard-classic-java")?;
                Some(tree::merge(&making.preset("aws-adaptive")?, &standard))
            }
        };
    }
    making.preset(match (mode, variant) {
        (Mode::Standard, Variant::None) => "aws-standard",
        (Mode::Standard, Variant::DynamoDb) => "aws-standard-dynamodb",
        (Mode::Standard, Variant::LongPolling) => "aws-standard-long-polling",
        (Mode::Adaptive, Variant::None) => "aws-adaptive",
        (Mode::Adaptive, Variant::DynamoDb) => "aws-adaptive-dynamodb",
        (Mode::Adaptive, Variant::LongPolling) => "aws-adaptive-long-polling",
        (Mode::Legacy, Variant::DynamoDb) if dialect == Dialect::Java => "aws-legacy-java-dynamodb",
        (Mode::Legacy, _) if dialect == Dialect::Java => "aws-legacy-java",
        (Mode::Legacy, Variant::DynamoDb) => "aws-legacy-dynamodb",
        (Mode::Legacy, _) => "aws-legacy",
    })
}

/// The properties of the profile in use; none if there is no such file or profile.
fn profile(making: &mut Making<'_>) -> Option<BTreeMap<String, Property>> {
    let given = |name: &str| making.variable(name).filter(|value| !value.is_empty());
    let name = given("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let home = given("HOME").or_else(|| given("USERPROFILE"));
    let path = given("AWS_CONFIG_FILE").unwrap_or_else(|| "~/.aws/config".to_owned());
    let path = match path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => match home {
            Some(home) => format!("{}{rest}", home.trim_end_matches('/')),
            None => return Some(BTreeMap::new()),
        },
        None => path,
    };
    let text = match making.surroundings?.file(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Some(BTreeMap::new()),
        Err(why) => {
            let message = format!("the AWS config file {} cannot be read: {why}", shorten(&path));
            making.problems.push(Problem::new(Code::Missing, &making.named.place, message));
            return None;
        }
    };
    let index = making.put(Source::file(&path, &text));
    let source = making.source(index)?;
    match file::profile(&source, index, &name) {
        Ok(properties) => Some(properties.unwrap_or_default()),
        Err(problem) => {
            making.problems.push(problem);
            None
        }
    }
}

/// The variable, or else the property.
fn setting(
    making: &mut Making<'_>,
    variable: &'static str,
    property: &str,
    profile: &BTreeMap<String, Property>,
    dialect: Dialect,
) -> Option<Given> {
    // A variable that is empty is one that is not set, but not to Rust and Python.
    let strict = matches!(dialect, Dialect::Rust | Dialect::Python);
    if let Some(value) = making.variable(variable).filter(|value| strict || !value.is_empty()) {
        let index = making.put(Source::variable(variable, &value));
        let start = variable.len() + 1;
        let layer = making.layer(Origin::Outside(variable.to_owned()));
        return Some(Given { place: Place::new(index, start..start + value.len()), value, layer });
    }
    let property = profile.get(property)?;
    let source = making.source(property.place.source)?;
    let line = source.line_of(property.place.start);
    let layer = making.layer(Origin::Outside(format!("{}:{line}", source.name)));
    Some(Given { value: property.value.clone(), place: property.place.clone(), layer })
}

fn mode(making: &mut Making<'_>, given: Given, dialect: Dialect) -> Option<Mode> {
    let Given { value, place, layer } = given;
    let said = match dialect {
        Dialect::Rust => value.trim().to_ascii_lowercase(),
        Dialect::Java => value.to_ascii_lowercase(),
        Dialect::Python | Dialect::JavaScript | Dialect::Go => value.clone(),
    };
    let known = modes(dialect).iter().find(|(word, _)| *word == said).map(|(_, mode)| *mode);
    let Some(mode) = known.or((dialect == Dialect::JavaScript).then_some(Mode::Standard)) else {
        let message =
            format!("\"{}\" is no retry mode of the AWS SDK for {}", shorten(&value), dialect.name());
        let words = one_of(modes(dialect).iter().map(|(word, _)| format!("\"{word}\"")));
        let problem = Problem::new(Code::UnknownWord, &place, message).label(format!("expected {words}"));
        making.problems.push(problem.maybe_help(mode_help(&value, dialect)));
        return None;
    };
    making.tell(
        "mode",
        Node { key: place.clone(), place, layer, value: Value::String(mode.word().to_owned()) },
    );
    Some(mode)
}

fn mode_help(value: &str, dialect: Dialect) -> Option<String> {
    let plain = value.trim().to_ascii_lowercase();
    if modes(dialect).iter().any(|(word, _)| *word == plain) {
        return Some(format!("it is written \"{plain}\", in small letters and without blanks"));
    }
    (plain == "legacy")
        .then(|| "only Python, Java and some others have it; see the dialects of aws-env".to_owned())
}

fn mode_parameter(making: &mut Making<'_>, node: &Node, dialect: Dialect) -> Option<Mode> {
    let word = node.string().unwrap_or_default();
    let found = modes(dialect).iter().find(|(known, _)| *known == word).map(|(_, mode)| *mode);
    if found.is_none() {
        let words = one_of(modes(dialect).iter().map(|(word, _)| format!("\"{word}\"")));
        let message = format!("`preset.mode` is no retry mode of the AWS SDK for {}", dialect.name());
        making
            .problems
            .push(Problem::new(Code::UnknownWord, &node.place, message).label(format!("expected {words}")));
    }
    found
}

/// The outer none: it was bad, and that was told.
#[allow(clippy::option_option, reason = "bad, none and some are three things")]
fn attempts(making: &mut Making<'_>, given: Given, dialect: Dialect) -> Option<Option<Node>> {
    let Given { value, place, layer } = given;
    let node = |attempts: u32| {
        let value = Value::Integer(Some(attempts.into()));
        Some(Some(Node { key: place.clone(), place: place.clone(), layer, value }))
    };
    match (value.trim().parse::<u32>(), dialect) {
        (Ok(0), Dialect::JavaScript) => node(1),
        // No setting at all to its config loader; only a retryer that is made in code takes it for "no limit".
        (Ok(0), Dialect::Go) => Some(None),
        (Ok(0), _) => {
            let message = format!("0 attempts are refused by the AWS SDK for {}", dialect.name());
            let problem =
                Problem::new(Code::BadValue, &place, message).label("expected a number of at least 1");
            making.problems.push(problem.help("the first attempt counts: 1 switches retries off"));
            None
        }
        (Ok(attempts), _) => node(attempts),
        (Err(_), _) => {
            let message = format!("\"{}\" is no number of attempts", shorten(&value));
            let problem = Problem::new(Code::BadValue, &place, message);
            making.problems.push(problem.label("expected a whole number of at least 1"));
            None
        }
    }
}

impl Dialect {
    fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::Go => "Go",
            Self::Java => "Java",
        }
    }
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Adaptive => "adaptive",
            Self::Legacy => "legacy",
        }
    }
}

fn modes(dialect: Dialect) -> &'static [(&'static str, Mode)] {
    const ALL: &[(&str, Mode)] =
        &[("standard", Mode::Standard), ("adaptive", Mode::Adaptive), ("legacy", Mode::Legacy)];
    match dialect {
        Dialect::Python | Dialect::Java => ALL,
        Dialect::Rust | Dialect::Go | Dialect::JavaScript => ALL.split_at(2).0,
    }
}

/// A parameter that is a word. The outer none: it was bad, and that was told.
#[allow(clippy::option_option, reason = "bad, none and some are three things")]
fn choice<T: Copy>(making: &mut Making<'_>, key: &str, known: &[(&str, T)]) -> Option<Option<T>> {
    let Some(node) = making.parameters.get(key) else { return Some(None) };
    let found = known.iter().find(|(word, _)| node.string() == Some(word)).map(|(_, value)| *value);
    if found.is_none() {
        let words = one_of(known.iter().map(|(word, _)| format!("\"{word}\"")));
        let message = format!("this is no word for `preset.{key}`");
        making
            .problems
            .push(Problem::new(Code::UnknownWord, &node.place, message).label(format!("expected {words}")));
    }
    found.map(Some)
}
