//! Presets: what each of them is, and how they lie under policies.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::time::Duration;

use relent_config::{File, Flag, Origin, Preset};
use relent_core::Jitter;

fn file(policies: &str) -> File {
    File::parse(&format!("version = 1\n{policies}"), "relent.toml")
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(policies: &str) -> String {
    File::parse(&format!("version = 1\n{policies}"), "relent.toml").unwrap_err().to_string()
}

#[test]
fn every_preset_says_what_it_is_and_where_its_numbers_are_from() {
    let names: Vec<&str> = Preset::all().map(Preset::name).collect();
    assert!(names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1), "{names:?}");
    for preset in Preset::all() {
        let name = preset.name();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
        assert!(!preset.system().is_empty() && !preset.version().is_empty(), "{name}");
        let description = preset.description();
        assert!(
            (20..=90).contains(&description.len()) && !description.contains('\n'),
            "{name}: {description}"
        );
        assert!(!preset.sources().is_empty(), "{name}");
        assert!(preset.sources().iter().all(|source| source.starts_with("https://")), "{name}");
        let date: Vec<usize> = preset.checked().split('-').map(str::len).collect();
        assert_eq!(date, [4, 2, 2], "{name}");
        assert_eq!(Preset::named(name).map(Preset::name), Some(name));
    }
    assert!(Preset::named("aws").is_none());
}

/// By itself, in a file, and written out as TOML, a preset is the same policy.
#[test]
fn every_preset_is_a_policy() {
    for preset in Preset::all().filter(|preset| preset.parameters().is_empty()) {
        let name = preset.name();
        let alone = preset.with(&[], None).unwrap_or_else(|errors| panic!("{errors}"));
        let file = file(&format!("[policies.p]\npreset = \"{name}\""));
        let named = file.resolved("p").unwrap();
        assert_eq!(alone.policy(), named.policy(), "{name}");
        assert_eq!(alone.common(), named.common(), "{name}");
        assert_eq!(named.preset().map(Preset::name), Some(name));
        let written =
            File::parse(&format!("version = 1\n[policies.p]\n{}", named.to_toml()), "written").unwrap();
        assert_eq!(written.policy("p").unwrap(), named.policy(), "{name}");
        assert_eq!(written.resolved("p").unwrap().common(), named.common(), "{name}");
        for setting in named.settings() {
            let of_preset = matches!(&setting.origin, Origin::Preset(_) | Origin::BuiltIn(_));
            assert!(of_preset || setting.path == "preset", "{name}: {setting:?}");
            assert!(setting.line.is_none() || setting.path == "preset", "{name}: {setting:?}");
        }
        let limits = alone.settings().iter().filter(|setting| setting.path == "max_attempts");
        assert!(
            limits.clone().count() == 1
                && limits.clone().all(|limit| matches!(limit.origin, Origin::Preset(_)))
        );
    }
}

#[test]
fn a_preset_lies_under_the_bases_and_the_policys_own_keys() {
    let file = file(
        r#"
[policies.top]
base = "middle"
max_attempts = 3

[policies.middle]
preset = "aws-legacy-dynamodb"
max_attempts = 7
backoff.cap = "2s"

[policies.other]
base = "middle"
preset = "aws-legacy"

[policies.none]
base = "other"
preset = "none"
"#,
    );
    let of = |name: &str| {
        let policy = file.policy(name).unwrap();
        let backoff = policy.backoff();
        (policy.max_attempts(), backoff.schedule().initial(), backoff.longest(), backoff.jitter_used())
    };
    let (short, cap) = (Duration::from_millis(50), Some(Duration::from_secs(2)));
    assert_eq!(of("top"), (Some(3), short, cap, Jitter::None));
    assert_eq!(of("middle"), (Some(7), short, cap, Jitter::None));
    // The nearest preset is the one; what policies say themselves lies over it all the same.
    assert_eq!(of("other"), (Some(7), Duration::from_secs(1), cap, Jitter::Full));
    assert_eq!(of("none"), (Some(7), Duration::from_millis(100), cap, Jitter::Full));

    let flags = [Flag::new("--jitter", "jitter", "equal")];
    let resolved = file.policy_with("top", &flags).unwrap();
    assert_eq!(resolved.preset().map(Preset::name), Some("aws-legacy-dynamodb"));
    let origin = |path: &str| {
        let setting = resolved.settings().iter().find(|setting| setting.path == path).unwrap();
        (setting.origin.clone(), setting.line)
    };
    assert_eq!(origin("preset"), (Origin::Policy("middle".into()), Some(8)));
    assert_eq!(origin("max_attempts"), (Origin::Policy("top".into()), Some(5)));
    assert_eq!(origin("backoff.cap"), (Origin::Policy("middle".into()), Some(10)));
    assert_eq!(origin("backoff.initial"), (Origin::Preset("aws-legacy-dynamodb"), None));
    assert_eq!(origin("hint.mode"), (Origin::Preset("aws-legacy"), None));
    assert_eq!(origin("jitter"), (Origin::Flag("--jitter".into()), None));
    assert_eq!(origin("backoff.initial").0.to_string(), "preset aws-legacy-dynamodb");
}

#[test]
fn what_is_wrong_with_a_preset_is_told_at_its_name() {
    let told = errors("[policies.p]\npreset = \"aws-legcay\"");
    assert!(
        told.contains("error[unknown-preset]: there is no preset \"aws-legcay\"\n --> relent.toml:3:10"),
        "{told}"
    );
    assert!(told.contains("did you mean \"aws-legacy\"?"), "{told}");
    for preset in Preset::all() {
        assert!(told.contains(preset.name()), "{told}");
    }
    let told = errors("[policies.p]\npreset = \"aws\"\nmax_atempts = 3");
    assert!(told.contains("did you mean \"aws-"), "{told}");
    assert!(told.contains("did you mean `max_attempts`?"), "all is told at once: {told}");
    let told = errors("[policies.p]\npreset = 3");
    assert!(told.contains("`preset` is an integer"), "{told}");
    let told = errors("[policies.p]\npreset = { mode = \"legacy\" }");
    assert!(told.contains("`preset` has no `name`"), "{told}");
    let told = errors("[policies.p]\npreset = { name = \"aws-legacy\", dialect = \"go\" }");
    assert!(
        told.contains("error[unknown-key]: unknown key `dialect` for the preset \"aws-legacy\""),
        "{told}"
    );
    assert!(told.contains("--> relent.toml:3:33") && told.contains("it takes none"), "{told}");
    // What the preset says meets what the policy inherits: nobody can change the preset.
    let told = errors(
        "[policies.b]\nbackoff.floor = \"90ms\"\n[policies.p]\nbase = \"b\"\npreset = \"aws-legacy\"\nbackoff.cap = \"80ms\"",
    );
    assert!(told.contains("`backoff.floor`: lies above the cap"), "{told}");
}
