//! What must hold for every input, whoever makes it up: properties, the fuzzer, its corpus.

#![allow(dead_code, reason = "each user needs some of it")]

use relent_config::foreign::{ServiceConfig, StateMachine};
use relent_config::{BuiltIn, Errors, File, Flag, MAX_DURATION, Reader, format_duration, parse_duration};

/// Any text: read and written it stays the same; or it is refused, and each place lies in it.
pub(crate) fn policy(text: &str) {
    let errors = match Reader::new().policy_table("http").parse(text, "relent.toml") {
        Ok(file) => {
            for resolved in file.policies() {
                let written = format!("version = 1\n[policies.p]\n{}", resolved.to_toml());
                let again = File::parse(&written, "written").unwrap_or_else(|errors| panic!("{errors}"));
                assert_eq!(again.policy("p").unwrap(), resolved.policy(), "{written}");
                assert_eq!(again.resolved("p").unwrap().common(), resolved.common(), "{written}");
            }
            return;
        }
        Err(errors) => errors,
    };
    told(text, &errors);
}

/// Any text as those of other systems: what is told about it lies in it.
pub(crate) fn foreign(text: &str) {
    match StateMachine::parse(text, "machine.json") {
        Ok(machine) => machine.warnings().iter().for_each(|warning| assert!(warning.line().is_some())),
        Err(errors) => told(text, &errors),
    }
    match ServiceConfig::parse(text, "service-config.json") {
        Ok(config) => config.warnings().iter().for_each(|warning| assert!(warning.line().is_some())),
        Err(errors) => told(text, &errors),
    }
}

/// Errors are told in order, at places that lie in the text, and disturb no terminal.
fn told(text: &str, errors: &Errors) {
    assert!(errors.iter().len() > 0);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut last = 0;
    for error in errors {
        let span = error.span().unwrap();
        assert!(text.get(span.clone()).is_some(), "{span:?} of {}: {error}", text.len());
        assert_eq!(error.line(), Some(1 + text[..span.start].matches('\n').count()), "{error}");
        assert!(last <= span.start, "not in order of place: {errors}");
        last = span.start;
    }
    let told = errors.to_string();
    assert!(!told.chars().any(|letter| letter.is_control() && letter != '\n'), "{told:?}");
}

/// Any text: a duration that reads back as it is written, or an error whose place lies in the text.
pub(crate) fn duration(text: &str) {
    match parse_duration(text) {
        Ok(duration) => {
            assert!(duration <= MAX_DURATION);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        Err(error) => {
            assert!(text.get(error.span()).is_some(), "{:?} of {text:?}", error.span());
            assert!(error.suggestion().is_none_or(|good| parse_duration(good).is_ok()), "{error:?}");
        }
    }
}

/// Any options, as paths and values, over the built-in policy.
pub(crate) fn flags(flags: &[(&str, &str)]) {
    let flags: Vec<Flag<'_>> = flags.iter().map(|(path, value)| Flag::new("--flag", path, value)).collect();
    if let Err(errors) = BuiltIn::Run.with(&flags) {
        assert!(!errors.to_string().is_empty());
    }
}
