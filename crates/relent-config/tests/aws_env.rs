//! The preset `aws-env`: what the AWS SDKs are told by the environment and by the shared config file, and what each of
//! them makes of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use relent_config::{Errors, File, Origin, Reader, Resolved, Surroundings};

/// A machine with these variables and files.
#[derive(Clone, Debug, Default)]
struct Machine {
    variables: Vec<(String, String)>,
    files: Vec<(String, Result<String, String>)>,
}

impl Surroundings for Machine {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &str) -> Result<Option<String>, String> {
        self.files.iter().find(|(known, _)| known == path).map(|(_, text)| text.clone()).transpose()
    }
}

impl Machine {
    fn of(variables: &[(&str, &str)], config: &str) -> Self {
        let variables = [&[("HOME", "/home/ada")], variables].concat();
        let variables =
            variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { variables, files: vec![("/home/ada/.aws/config".to_owned(), Ok(config.to_owned()))] }
    }

    fn read(&self, policy: &str) -> Result<File, Errors> {
        let text = format!("version = 1\n[policies.p]\n{policy}\n");
        Reader::new().surroundings(Arc::new(self.clone())).parse(&text, "relent.toml")
    }

    fn told(&self, policy: &str) -> String {
        self.read(policy).unwrap_err().to_string()
    }
}

fn preset(dialect: &str) -> String {
    format!("preset = {{ name = \"aws-env\", dialect = \"{dialect}\" }}")
}

/// Attempts, first wait in milliseconds, and whether there is an adaptive rate.
fn shape(resolved: &Resolved) -> (u32, u64, bool) {
    let policy = resolved.policy();
    let initial = policy.backoff().schedule().initial();
    (policy.max_attempts().unwrap(), initial.as_millis() as u64, resolved.common().adaptive)
}

const STANDARD: (u32, u64, bool) = (3, 50, false);
const ADAPTIVE: (u32, u64, bool) = (3, 50, true);
const LEGACY: (u32, u64, bool) = (5, 1_000, false);
const JAVA_LEGACY: (u32, u64, bool) = (4, 100, false);
const JAVA_STANDARD: (u32, u64, bool) = (3, 100, false);

#[test]
fn each_dialect_takes_the_mode_in_its_own_way() {
    let refused = None;
    for (value, rust, python, js, go, java) in [
        (None, Some(STANDARD), Some(STANDARD), Some(STANDARD), Some(STANDARD), Some(JAVA_LEGACY)),
        (
            Some("standard"),
            Some(STANDARD),
            Some(STANDARD),
            Some(STANDARD),
            Some(STANDARD),
            Some(JAVA_STANDARD),
        ),
        (
            Some("adaptive"),
            Some(ADAPTIVE),
            Some(ADAPTIVE),
            Some(ADAPTIVE),
            Some(ADAPTIVE),
            Some((3, 100, true)),
        ),
        (Some("legacy"), refused, Some(LEGACY), Some(STANDARD), refused, Some(JAVA_LEGACY)),
        (Some("Adaptive"), Some(ADAPTIVE), refused, Some(STANDARD), refused, Some((3, 100, true))),
        (Some(" adaptive "), Some(ADAPTIVE), refused, Some(STANDARD), refused, refused),
        (Some(""), refused, refused, Some(STANDARD), Some(STANDARD), Some(JAVA_LEGACY)),
        (Some("eager"), refused, refused, Some(STANDARD), refused, refused),
    ] {
        let variables: Vec<_> = value.map(|value| ("AWS_RETRY_MODE", value)).into_iter().collect();
        let machine = Machine::of(&variables, "");
        for (dialect, expected) in
            [("rust", rust), ("python", python), ("js", js), ("go", go), ("java", java)]
        {
            let file = machine.read(&preset(dialect));
            let found = file.as_ref().ok().map(|file| shape(file.resolved("p").unwrap()));
            assert_eq!(found, expected, "{value:?} {dialect}");
            if let (Err(errors), Some(value)) = (file, value) {
                let told = errors.to_string();
                assert!(
                    told.starts_with("error[unknown-word]: ")
                        && told.contains(&format!("AWS_RETRY_MODE={value}").trim_end().to_owned()),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn each_dialect_takes_the_number_of_attempts_in_its_own_way() {
    for (value, rust, python, js, go, java) in [
        ("7", Some(7), Some(7), Some(7), Some(7), Some(7)),
        (" 7 ", Some(7), Some(7), Some(7), Some(7), Some(7)),
        ("1", Some(1), Some(1), Some(1), Some(1), Some(1)),
        ("0", None, None, Some(1), Some(3), None),
        ("-1", None, None, None, None, None),
        ("three", None, None, None, None, None),
        ("2.5", None, None, None, None, None),
        ("4294967296", None, None, None, None, None),
    ] {
        for given in [
            Machine::of(&[("AWS_MAX_ATTEMPTS", value)], ""),
            Machine::of(&[], &format!("[default]\nmax_attempts = {value}\n")),
        ] {
            for (dialect, expected) in
                [("rust", rust), ("python", python), ("js", js), ("go", go), ("java", java)]
            {
                let file = given.read(&preset(dialect));
                let found = file.ok().map(|file| file.policy("p").unwrap().max_attempts().unwrap());
                assert_eq!(found, expected, "{value:?} {dialect} {given:?}");
            }
        }
    }
}

#[test]
fn variants_are_other_presets() {
    let machine = Machine::of(&[], "[default]\nretry_mode = adaptive");
    let resolved = |policy: &str| machine.read(policy).unwrap().resolved("p").unwrap().clone();
    let dynamodb = resolved("preset = { name = \"aws-env\", variant = \"dynamodb\" }");
    assert_eq!(shape(&dynamodb), (4, 25, true));
    let polling = resolved("preset = { name = \"aws-env\", variant = \"long-polling\" }");
    assert_eq!(shape(&polling), ADAPTIVE);
    assert_eq!(polling.policy().on_budget(), relent_core::OnBudget::Wait);
    // What the policy says itself goes before the environment, as what a client's code says does.
    let own = resolved("preset = { name = \"aws-env\", mode = \"standard\" }\nmax_attempts = 9");
    assert_eq!(shape(&own), (9, 50, false));
    let java = |variant: &str| {
        format!("preset = {{ name = \"aws-env\", dialect = \"java\", variant = \"{variant}\" }}")
    };
    let machine = Machine::of(&[("AWS_NEW_RETRIES_2026", "TRUE"), ("AWS_RETRY_MODE", "standard")], "");
    assert_eq!(shape(machine.read(&java("dynamodb")).unwrap().resolved("p").unwrap()), (4, 25, false));
    let machine = Machine::of(&[], "");
    assert_eq!(shape(machine.read(&java("dynamodb")).unwrap().resolved("p").unwrap()), (9, 25, false));
}

#[test]
fn the_profile_is_the_one_that_is_meant() {
    let config = "\
# a comment
; another
[default]
max_attempts = 2
RETRY_MODE=adaptive ; in any case
region = eu-west-1 # not ours

[profile\tdev]   # of the team
max_attempts=4#not a comment, and so no number
max_attempts = 5
s3 =
  max_attempts = 6
  addressing_style = path
[sso-session dev]
max_attempts = 7
[dev]
max_attempts = 8
[profile both]
max_attempts = 10
[profile dev]
retry_mode = standard
";
    let attempts = |variables: &[(&str, &str)], config: &str| {
        let machine = Machine::of(variables, config);
        let file = machine.read("preset = \"aws-env\"").unwrap_or_else(|errors| panic!("{errors}"));
        shape(file.resolved("p").unwrap())
    };
    assert_eq!(attempts(&[], config), (2, 50, true));
    assert_eq!(attempts(&[("AWS_PROFILE", "")], config), (2, 50, true));
    assert_eq!(attempts(&[("AWS_PROFILE", "dev")], config), (5, 50, false));
    assert_eq!(attempts(&[("AWS_PROFILE", "both")], config), (10, 50, false));
    assert_eq!(attempts(&[("AWS_PROFILE", "prod")], config), STANDARD);
    assert_eq!(attempts(&[("AWS_MAX_ATTEMPTS", "6")], config), (6, 50, true), "each by itself");
    assert_eq!(attempts(&[("AWS_RETRY_MODE", "standard")], config), (2, 50, false));
    // Of two defaults the one that says what it is.
    let both = "[profile default]\nmax_attempts = 4\n[default]\nmax_attempts = 5\nretry_mode = adaptive\n";
    assert_eq!(attempts(&[], both), (4, 50, false));
    assert_eq!(attempts(&[], "\u{feff}[default]\r\nmax_attempts = 4\r\n"), (4, 50, false));

    // Where the file is.
    let mut machine = Machine::of(&[("AWS_CONFIG_FILE", "etc/aws")], "[default]\nmax_attempts = 2");
    let shape_of =
        |machine: &Machine| shape(machine.read("preset = \"aws-env\"").unwrap().resolved("p").unwrap());
    assert_eq!(shape_of(&machine), STANDARD, "a file that is not there says nothing");
    machine.files.push(("etc/aws".to_owned(), Ok("[default]\nmax_attempts = 4".to_owned())));
    assert_eq!(shape_of(&machine), (4, 50, false));
    machine.variables[1].1 = "~/.aws/config".to_owned();
    assert_eq!(shape_of(&machine), (2, 50, false));
    machine.variables[0].0 = "NO_HOME".to_owned();
    assert_eq!(shape_of(&machine), STANDARD);
}

#[test]
fn every_value_tells_where_it_comes_from() {
    let config = "[default]\n\n[profile dev]\nretry_mode = adaptive\nmax_attempts = 4\n";
    let machine = Machine::of(&[("AWS_PROFILE", "dev")], config);
    let origins = |machine: &Machine| -> Vec<(String, String, String)> {
        let file = machine.read("preset = \"aws-env\"").unwrap();
        let resolved = file.resolved("p").unwrap();
        assert_eq!(resolved.preset().map(relent_config::Preset::name), Some("aws-env"));
        let settings = resolved.settings().iter().filter(|setting| {
            ["preset.name", "preset.mode", "max_attempts", "backoff.initial"].contains(&setting.path.as_str())
        });
        settings
            .map(|setting| (setting.path.clone(), setting.value.clone(), setting.origin.to_string()))
            .collect()
    };
    let row = |path: &str, value: &str, origin: &str| (path.to_owned(), value.to_owned(), origin.to_owned());
    assert_eq!(
        origins(&machine),
        [
            row("preset.mode", "\"adaptive\"", "/home/ada/.aws/config:4"),
            row("preset.name", "\"aws-env\"", "[policies.p]"),
            row("max_attempts", "4", "/home/ada/.aws/config:5"),
            row("backoff.initial", "\"50ms\"", "preset aws-standard"),
        ]
    );
    let machine = Machine::of(&[("AWS_MAX_ATTEMPTS", "6"), ("AWS_RETRY_MODE", "Standard")], config);
    assert_eq!(origins(&machine)[0], row("preset.mode", "\"standard\"", "AWS_RETRY_MODE"));
    assert_eq!(origins(&machine)[2], row("max_attempts", "6", "AWS_MAX_ATTEMPTS"));
    let file = machine.read("preset = \"aws-env\"").unwrap();
    assert!(file.policies().all(|resolved| {
        resolved.settings().iter().all(|setting| match setting.origin {
            Origin::Outside(_) | Origin::Preset(_) => setting.line.is_none(),
            _ => true,
        })
    }));
}

/// What the SDKs refuse, with the line.
#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (variables, config, policy, expected) in [
        (
            &[][..],
            "[default]\nregion = eu-west-1\nmax_attempts = 0   # never\n",
            preset("rust"),
            "\
error[bad-value]: 0 attempts are refused by the AWS SDK for Rust
 --> /home/ada/.aws/config:3:16
  |
3 | max_attempts = 0   # never
  |                ^ expected a number of at least 1
  = help: the first attempt counts: 1 switches retries off
",
        ),
        (
            &[("AWS_MAX_ATTEMPTS", "0")],
            "",
            preset("python"),
            "\
error[bad-value]: 0 attempts are refused by the AWS SDK for Python
 |
 | AWS_MAX_ATTEMPTS=0
 |                  ^ expected a number of at least 1
 = help: the first attempt counts: 1 switches retries off
",
        ),
        (
            &[("AWS_PROFILE", "dev")],
            "[profile dev]\nretry_mode = Standard\nmax_attempts = many\n",
            preset("python"),
            "\
error[unknown-word]: \"Standard\" is no retry mode of the AWS SDK for Python
 --> /home/ada/.aws/config:2:14
  |
2 | retry_mode = Standard
  |              ^^^^^^^^ expected \"standard\", \"adaptive\" or \"legacy\"
  = help: it is written \"standard\", in small letters and without blanks

error[bad-value]: \"many\" is no number of attempts
 --> /home/ada/.aws/config:3:16
  |
3 | max_attempts = many
  |                ^^^^ expected a whole number of at least 1
",
        ),
        (
            &[],
            "[default]\nretry_mode = legacy\n",
            preset("go"),
            "\
error[unknown-word]: \"legacy\" is no retry mode of the AWS SDK for Go
 --> /home/ada/.aws/config:2:14
  |
2 | retry_mode = legacy
  |              ^^^^^^ expected \"standard\" or \"adaptive\"
  = help: only Python, Java and some others have it; see the dialects of aws-env
",
        ),
        (
            &[],
            "[profile dev\nmax_attempts = 3\n",
            preset("rust"),
            "\
error[syntax]: this is no AWS config file: a section has no closing bracket: `[profile dev`
 --> /home/ada/.aws/config:1:1
  |
1 | [profile dev
  | ^^^^^^^^^^^^
  = help: write `[profile NAME]`
",
        ),
        (
            &[],
            "max_attempts = 3\n",
            preset("rust"),
            "\
error[syntax]: this is no AWS config file: a property stands before any section: `max_attempts = 3`
 --> /home/ada/.aws/config:1:1
  |
1 | max_attempts = 3
  | ^^^^^^^^^^^^^^^^
  = help: begin the file with `[default]` or `[profile NAME]`
",
        ),
        (
            &[],
            "[other]\n\nmax_attempts 3\n",
            preset("rust"),
            "\
error[syntax]: this is no AWS config file: a property has no `=`: `max_attempts 3`
 --> /home/ada/.aws/config:3:1
  |
3 | max_attempts 3
  | ^^^^^^^^^^^^^^
  = help: write `NAME = VALUE`
",
        ),
        (
            &[],
            "[default]\n  max_attempts = 3\n",
            preset("rust"),
            "\
error[syntax]: this is no AWS config file: this line goes on with no property: `max_attempts = 3`
 --> /home/ada/.aws/config:2:1
  |
2 |   max_attempts = 3
  | ^^^^^^^^^^^^^^^^^^
  = help: a property begins its line; only what goes on with one is indented
",
        ),
        (
            &[],
            "",
            preset("ruby"),
            "\
error[unknown-word]: this is no word for `preset.dialect`
 --> relent.toml:3:40
  |
3 | preset = { name = \"aws-env\", dialect = \"ruby\" }
  |                                        ^^^^^^ expected \"rust\", \"python\", \"js\", \"go\" or \"java\"
",
        ),
    ] {
        assert_eq!(Machine::of(variables, config).told(&policy), expected);
    }
}

#[test]
fn what_cannot_be_read_is_told_where_the_preset_is_named() {
    let mut machine = Machine::of(&[], "");
    machine.files[0].1 = Err("permission denied".to_owned());
    let told = machine.told("preset = \"aws-env\"");
    assert!(
        told.contains("the AWS config file /home/ada/.aws/config cannot be read: permission denied"),
        "{told}"
    );
    assert!(told.contains("--> relent.toml:3:10"), "{told}");
    let told = File::parse("version = 1\n[policies.p]\npreset = \"aws-env\"", "relent.toml")
        .unwrap_err()
        .to_string();
    assert!(told.contains("needs the environment") && told.contains("--> relent.toml:3:10"), "{told}");
}

/// Two policies that read the same file read it alike, and options lie over what it says.
#[test]
fn options_lie_over_the_environment() {
    let machine = Machine::of(&[], "[default]\nmax_attempts = 4");
    let text =
        "version = 1\n[policies.a]\npreset = \"aws-env\"\n[policies.b]\nbase = \"a\"\nbackoff.cap = \"1s\"\n";
    let file = Reader::new().surroundings(Arc::new(machine.clone())).parse(text, "relent.toml").unwrap();
    let flags = [relent_config::Flag::new("--max-attempts", "max_attempts", "2")];
    assert_eq!(shape(&file.policy_with("b", &flags).unwrap()), (2, 50, false));
    assert_eq!(shape(file.resolved("b").unwrap()), (4, 50, false));
    let preset = relent_config::Preset::named("aws-env").unwrap();
    let alone = preset.with(&flags, Some(&machine)).unwrap();
    assert_eq!(alone.policy().backoff().longest(), Some(Duration::from_secs(20)));
    assert_eq!(shape(&alone), (2, 50, false));
    assert!(preset.with(&[], None).is_err());
}

proptest! {
    /// Whatever the environment says, it is taken or refused, and errors lie in the text that they are about.
    #[test]
    fn any_environment_is_taken_or_refused(
        config in prop_oneof![
            "\\PC{0,100}",
            "([ \t]{0,2}(\\[(profile )?(default|dev)\\]?|max_attempts|retry_mode|s3|=|[0-9]|adaptive|#|;)[ \t\r\n]{0,2}){0,20}",
        ],
        mode in prop::option::of("[a-zA-Z \n]{0,10}"),
        attempts in prop::option::of("[0-9 x-]{0,12}"),
        profile in prop::option::of("(default|dev|\\PC{0,8})"),
        dialect in prop::sample::select(&["rust", "python", "js", "go", "java"][..]),
    ) {
        let given = [("AWS_RETRY_MODE", &mode), ("AWS_MAX_ATTEMPTS", &attempts), ("AWS_PROFILE", &profile)];
        let variables: Vec<(&str, &str)> =
            given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        let machine = Machine::of(&variables, &config);
        match machine.read(&preset(dialect)) {
            Ok(file) => prop_assert!(file.policy("p").unwrap().max_attempts() >= Some(1)),
            Err(errors) => for error in &errors {
                let told = error.to_string();
                prop_assert!(!told.chars().any(|letter| letter.is_control() && letter != '\n'), "{told:?}");
                if let Some(span) = error.span() {
                    prop_assert_eq!(error.source(), Some("/home/ada/.aws/config"));
                    let inside = config.trim_start_matches('\u{feff}').get(span).is_some();
                    prop_assert!(inside);
                }
            },
        }
    }
}
