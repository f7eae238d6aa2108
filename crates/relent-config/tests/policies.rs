//! Valid files: values, bases, merging, defaults, where values come from, tables of other crates.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::time::Duration;

use relent_config::{BuiltIn, Code, File, Flag, Origin, Reader, Resolved};
use relent_core::{
    Backoff, Bound, Class, Classes, Count, Deadline, First, HintMode, HintPolicy, Jitter, Multiplier,
    OnDeadline, OverMax, Policy, Rule, RuleId, Schedule, Stage,
};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn file(policies: &str) -> File {
    File::parse(&format!("version = 1\n{policies}"), "relent.toml")
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn policy(keys: &str) -> Policy {
    file(&format!("[policies.p]\n{keys}")).policy("p").unwrap().clone()
}

fn told(policies: &str) -> Vec<(Code, usize)> {
    let errors = File::parse(&format!("version = 1\n{policies}"), "relent.toml").unwrap_err();
    errors.iter().map(|error| (error.code(), error.line().unwrap())).collect()
}

#[test]
fn what_is_left_out_is_the_librarys_default() {
    assert_eq!(policy(""), Policy::default());
    assert_eq!(policy(""), BuiltIn::Library.policy());
    assert_eq!(policy("backoff = {}\nhint = {}\non = {}\nrules = []\nidempotency = {}"), Policy::default());
}

#[test]
fn every_key_reaches_the_policy() {
    let all = policy(
        r#"
        description = "all of it"
        max_attempts = 7
        deadline = { total = "30s", reserve = "500ms" }
        on_deadline = "fit"
        attempt_timeout = "5s"
        jitter = "decorrelated_v2"
        retry_on = ["transient", "permanent"]
        idempotency = { require = true }
        seed = 18446744073709551615
        [policies.p.backoff]
        kind = "exponential"
        initial = "200ms"
        cap = "10s"
        floor = "10ms"
        first = "immediate"
        bound = "sample"
        initial_spread = "3s"
        reset_after = "10m"
        [policies.p.hint]
        mode = "exact"
        max = "2m"
        over_max = "clamp"
        spread = 0.25
        "#,
    );
    let backoff = Backoff::new(Schedule::exponential(millis(200)))
        .cap(secs(10))
        .floor(millis(10))
        .first(First::Immediate)
        .jitter(Jitter::DecorrelatedV2)
        .bound(Bound::Sample)
        .initial_spread(secs(3))
        .reset_after(secs(600));
    let hint = HintPolicy::DEFAULT.mode(HintMode::Exact).max(secs(120)).over_max(OverMax::Clamp).spread(0.25);
    let built = Policy::default()
        .to_builder()
        .max_attempts(7)
        .deadline(Deadline { total: secs(30), reserve: millis(500) })
        .on_deadline(OnDeadline::Fit)
        .attempt_timeout(secs(5))
        .backoff(backoff)
        .hint(hint)
        .retry_on([Class::Transient, Class::Permanent])
        .require_idempotency(true)
        .seed(u64::MAX)
        .build()
        .unwrap();
    assert_eq!(all, built);
}

#[test]
fn every_kind_of_backoff_and_jitter_is_read() {
    let backoff = |keys: &str| policy(keys).backoff().clone();
    let uncapped = |schedule| Backoff::new(schedule).uncapped();
    assert_eq!(
        backoff("backoff = { kind = \"constant\", initial = \"1m\" }"),
        uncapped(Schedule::Constant { initial: secs(60) })
    );
    assert_eq!(
        backoff("backoff = { kind = \"linear\", initial = \"1s\", step = \"2s\" }"),
        Backoff::new(Schedule::Linear { initial: secs(1), step: secs(2) })
    );
    assert_eq!(
        backoff("backoff = { kind = \"fibonacci\" }"),
        Backoff::new(Schedule::Fibonacci { initial: millis(100) })
    );
    assert_eq!(
        backoff("backoff = { multiplier = 1.5 }"),
        Backoff::new(Schedule::Exponential {
            initial: millis(100),
            multiplier: Multiplier::new(1.5).unwrap()
        })
    );
    assert_eq!(
        backoff("backoff = { kind = \"list\", waits = [\"1s\", \"10m\"] }"),
        uncapped(Schedule::List(Box::new([secs(1), secs(600)])))
    );
    let stages = Box::new([
        Stage { until: Some(secs(7200)), initial: secs(900), multiplier: Multiplier::ONE },
        Stage { until: None, initial: secs(3600), multiplier: Multiplier::new(1.5).unwrap() },
    ]);
    assert_eq!(
        backoff(
            "backoff = { kind = \"stages\", stages = [{ until = \"2h\", initial = \"15m\" }, { initial = \"1h\", multiplier = 1.5 }] }"
        ),
        uncapped(Schedule::Stages(stages))
    );
    assert_eq!(
        backoff("backoff = { kind = \"csma\", slot = \"51.2us\" }"),
        uncapped(Schedule::Csma { slot: Duration::from_nanos(51_200), max_exponent: 10 })
    );
    for (word, jitter) in [
        ("\"none\"", Jitter::None),
        ("\"full\"", Jitter::Full),
        ("\"equal\"", Jitter::Equal),
        ("\"decorrelated\"", Jitter::Decorrelated),
        ("{ kind = \"equal\" }", Jitter::Equal),
        ("{ kind = \"proportional\", factor = 0.2 }", Jitter::Proportional { factor: 0.2 }),
        ("{ kind = \"additive\", max = \"50ms\" }", Jitter::Additive { max: millis(50) }),
    ] {
        assert_eq!(backoff(&format!("jitter = {word}")).jitter_used(), jitter, "{word}");
    }
}

#[test]
fn words_undo_what_numbers_set() {
    let undone = file(
        r#"
        [policies.base]
        max_attempts = 3
        deadline = { total = "30s", reserve = "1s" }
        on_deadline = "fit"
        attempt_timeout = "5s"
        backoff = { cap = "5s", reset_after = "1m" }
        seed = 7
        on.throttled = { max_attempts = 2 }
        [policies.p]
        base = "base"
        max_attempts = "unlimited"
        deadline = "none"
        attempt_timeout = "none"
        backoff = { cap = "none", reset_after = "none" }
        hint.max = "none"
        seed = "none"
        on.throttled = "none"
        "#,
    );
    let policy = undone.policy("p").unwrap();
    let built = Policy::default()
        .to_builder()
        .unlimited_attempts()
        .uncapped()
        .hint(HintPolicy::DEFAULT.max(Duration::MAX))
        .build();
    assert_eq!(policy, &built.unwrap());
}

#[test]
fn tables_of_one_kind_merge_and_others_are_replaced() {
    let file = file(
        r#"
        [policies.base]
        backoff = { kind = "linear", initial = "1s", step = "2s", floor = "500ms" }
        jitter = { kind = "proportional", factor = 0.2 }
        deadline = "30s"
        retry_on = ["transient"]
        hint = { max = "5s", over_max = "clamp" }
        [policies.same]
        base = "base"
        backoff = { kind = "linear", step = "3s" }
        jitter = { factor = 0.3 }
        deadline = { reserve = "1s" }
        retry_on = ["timeout"]
        hint.max = "6s"
        [policies.no-kind]
        base = "base"
        backoff.initial = "2s"
        jitter = { kind = "proportional", factor = 0.4 }
        [policies.other]
        base = "base"
        backoff = { kind = "constant", initial = "4s" }
        jitter = "equal"
        deadline = "10s"
        [policies.deep]
        base = "no-kind"
        backoff.floor = "100ms"
        "#,
    );
    let get = |name: &str| file.policy(name).unwrap();
    let linear = |initial, step| Backoff::new(Schedule::Linear { initial, step });
    let proportional = |factor| Jitter::Proportional { factor };

    let same = get("same");
    assert_eq!(same.backoff(), &linear(secs(1), secs(3)).floor(millis(500)).jitter(proportional(0.3)));
    assert_eq!(same.deadline(), Some(Deadline { total: secs(30), reserve: secs(1) }));
    assert_eq!(same.retry_on(), Classes::from(Class::Timeout));
    assert_eq!(same.hint(), &HintPolicy::DEFAULT.max(secs(6)).over_max(OverMax::Clamp));

    assert_eq!(
        get("no-kind").backoff(),
        &linear(secs(2), secs(2)).floor(millis(500)).jitter(proportional(0.4))
    );
    let constant = Backoff::new(Schedule::Constant { initial: secs(4) }).uncapped().jitter(Jitter::Equal);
    assert_eq!(get("other").backoff(), &constant);
    assert_eq!(get("other").deadline(), Some(Deadline { total: secs(10), reserve: Duration::ZERO }));
    assert_eq!(get("deep").backoff(), &linear(secs(2), secs(2)).floor(millis(100)).jitter(proportional(0.4)));
    assert_eq!(file.resolved("deep").unwrap().bases(), ["no-kind", "base"]);
}

#[test]
fn a_built_in_kind_is_a_kind_too() {
    let file = file(
        r#"
        [policies.base]
        backoff = { cap = "5s" }
        [policies.p]
        base = "base"
        backoff = { kind = "exponential", initial = "1s" }
        "#,
    );
    assert_eq!(
        file.policy("p").unwrap().backoff(),
        &Backoff::new(Schedule::exponential(secs(1))).cap(secs(5))
    );
}

#[test]
fn inherited_keys_may_lose_their_effect_silently_own_ones_may_not() {
    let base = "[policies.base]\nbackoff.multiplier = 3\non_deadline = \"fit\"\ndeadline = \"9s\"\non.timeout.max_attempts = 2\n";
    let child = "[policies.p]\nbase = \"base\"\n";
    let quiet =
        format!("{base}{child}jitter = \"decorrelated\"\ndeadline = \"none\"\nretry_on = [\"transient\"]\n");
    assert!(file(&quiet).policy("p").unwrap().rules().is_empty());
    let loud = format!("{base}{child}backoff = {{ kind = \"constant\", multiplier = 3 }}\n");
    assert_eq!(told(&loud), [(Code::NoEffect, 9)]);
}

#[test]
fn rules_lie_over_the_policy() {
    let file = file(
        r#"
        [policies.p]
        backoff = { initial = "1s", multiplier = 3, cap = "9s", initial_spread = "5s", reset_after = "1h" }
        jitter = "equal"
        rules = [
            { name = "busy", max_attempts = 2 },
            { name = "slow", classes = ["timeout"], backoff = { kind = "constant", initial = "7s" }, count = "all" },
        ]
        on.throttled = { backoff = { initial = "2s" } }
        on.transient = { jitter = "none", max_attempts = 9 }
        "#,
    );
    let tripling =
        |initial| Backoff::new(Schedule::Exponential { initial, multiplier: Multiplier::new(3.0).unwrap() });
    let constant = Backoff::new(Schedule::Constant { initial: secs(7) }).uncapped().jitter(Jitter::Equal);
    assert_eq!(
        file.policy("p").unwrap().rules(),
        [
            Rule::named().max_attempts(2),
            Rule::on(Class::Timeout).backoff(constant).count(Count::All),
            Rule::on(Class::Transient)
                .max_attempts(9)
                .backoff(tripling(secs(1)).cap(secs(9)).jitter(Jitter::None)),
            Rule::on(Class::Throttled).backoff(tripling(secs(2)).cap(secs(9)).jitter(Jitter::Equal)),
        ]
    );
    let resolved = file.resolved("p").unwrap();
    assert_eq!(resolved.rules(), ["busy", "slow"]);
    assert_eq!(resolved.rule("slow"), Some(RuleId(1)));
    assert_eq!(resolved.rule("fast"), None);
}

#[test]
fn names_descriptions_and_the_default() {
    let file = file(
        "[policies.zebra]\n[policies.default]\ndescription = \"d\"\n[policies.ape]\nbase = \"default\"\n",
    );
    assert_eq!(file.names().collect::<Vec<_>>(), ["zebra", "default", "ape"]);
    assert_eq!(file.description("default"), Some("d"));
    assert_eq!(file.description("ape"), None, "a description is not inherited");
    assert_eq!(file.default_policy().and_then(Resolved::name), Some("default"));
    let unknown = file.policy("zebre").unwrap_err();
    assert_eq!(unknown.to_string(), "relent.toml has no policy \"zebre\"; did you mean \"zebra\"?");
    assert_eq!(unknown.nearest(), Some("zebra"));
    let nothing = File::parse("version = 1\n", "empty.toml").unwrap();
    assert!(nothing.default_policy().is_none());
    assert_eq!(
        nothing.policy("x").unwrap_err().to_string(),
        "empty.toml has no policy \"x\"; it has no policies at all; one begins with [policies.NAME]"
    );
}

#[test]
fn every_value_tells_where_it_comes_from() {
    let file = file(
        "[policies.base]\nbackoff = { initial = \"1s\" }\njitter = \"equal\"\n\n[policies.p]\nbase = \"base\"\nbackoff.cap = \"5s\"\n",
    );
    let flags = [Flag::new("--max-attempts", "max_attempts", "2")];
    let resolved = file.policy_with("p", &flags).unwrap();
    let find = |path: &str| {
        let setting = resolved.settings().iter().find(|setting| setting.path == path).unwrap();
        (setting.value.as_str(), setting.origin.clone(), setting.line)
    };
    assert_eq!(find("backoff.initial"), ("\"1s\"", Origin::Policy("base".into()), Some(3)));
    assert_eq!(find("jitter"), ("\"equal\"", Origin::Policy("base".into()), Some(4)));
    assert_eq!(find("backoff.cap"), ("\"5s\"", Origin::Policy("p".into()), Some(8)));
    assert_eq!(find("max_attempts"), ("2", Origin::Flag("--max-attempts".into()), None));
    let (value, origin, line) = find("hint.max");
    assert_eq!((value, line), ("\"1m\"", None));
    assert!(matches!(origin, Origin::BuiltIn(why) if !why.is_empty()));
    let mut paths: Vec<&str> = resolved.settings().iter().map(|setting| setting.path.as_str()).collect();
    paths.sort_unstable();
    let before = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), before, "each path is there once");
}

/// The settings are a policy file themselves.
#[test]
fn the_settings_say_the_whole_policy() {
    for name in ["constant", "linear", "exponential", "fibonacci"] {
        let step = if name == "linear" { "step = \"1s\", " } else { "" };
        let file = file(&format!(
            "[policies.p]\ndeadline = {{ total = \"9s\", reserve = \"1s\" }}\nbackoff = {{ kind = \"{name}\", {step}floor = \"1ms\" }}\njitter = {{ kind = \"additive\", max = \"5ms\" }}\non.timeout = {{ max_attempts = 2, jitter = \"full\" }}\nrules = [{{ name = \"x\" }}]\n"
        ));
        let resolved = file.resolved("p").unwrap();
        let lines = resolved.settings().iter().filter(|setting| !setting.path.starts_with("rules"));
        let text: String = lines.map(|setting| format!("{} = {}\n", setting.path, setting.value)).collect();
        let again = policy(&format!("{text}rules = [{{ name = \"x\" }}]\n"));
        assert_eq!(&again, resolved.policy(), "{text}");
    }
}

#[test]
fn tables_of_other_crates_merge_and_come_back() {
    let reader = Reader::new().policy_table("run").table("scenarios");
    let text = "version = 1\n[scenarios.friday]\nrate = 5\n[policies.base]\nrun = { retry_exit = [75], output = \"last\" }\n[policies.p]\nbase = \"base\"\nrun.output = \"all\"\nrun.grace = \"5\"\n";
    let file = reader.parse(text, "relent.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        file.table("scenarios").unwrap().get("friday").unwrap().get("rate").unwrap().integer(),
        Some(5)
    );
    let resolved = file.resolved("p").unwrap();
    let run = resolved.extension("run").unwrap();
    assert_eq!(run.get("output").unwrap().string(), Some("all"));
    assert_eq!(run.get("retry_exit").unwrap().items().len(), 1);
    let mut checks = file.checks();
    checks.only_keys(&run, &["retry_exit", "outputs", "grace"]);
    assert_eq!(checks.duration(&run.get("grace").unwrap()), None);
    let errors = checks.finish().unwrap_err();
    let told: Vec<(Code, Option<usize>)> = errors.iter().map(|error| (error.code(), error.line())).collect();
    assert_eq!(told, [(Code::UnknownKey, Some(8)), (Code::BadDuration, Some(9))]);
    let setting = resolved.settings().iter().find(|setting| setting.path == "run.output").unwrap();
    assert_eq!((setting.value.as_str(), setting.line), ("\"all\"", Some(8)));
    // Who declares nothing gets nothing.
    assert!(File::parse(text, "relent.toml").is_err());
    assert_eq!(
        reader.parse("version = 1\nscenarios = 5\n[policies.p]\nrun = 5\n", "x").unwrap_err().iter().count(),
        2
    );
}

#[test]
fn flags_are_one_more_layer() {
    let file = file(
        "[policies.p]\ndeadline = { total = \"9s\", reserve = \"1s\" }\nbackoff = { kind = \"linear\", initial = \"1s\", step = \"1s\" }\n",
    );
    let with = |flags: &[(&str, &str)]| {
        let names: Vec<String> =
            flags.iter().map(|(path, _)| format!("--{}", path.replace('.', "-"))).collect();
        let flags: Vec<Flag<'_>> =
            flags.iter().zip(&names).map(|((path, value), name)| Flag::new(name, path, value)).collect();
        file.policy_with("p", &flags).map(Resolved::into_policy).map_err(|errors| errors.to_string())
    };
    let changed = with(&[
        ("max_attempts", "unlimited"),
        ("backoff.initial", "2s"),
        ("backoff.cap", "none"),
        ("jitter", "proportional"),
        ("jitter.factor", "0.5"),
        ("deadline.reserve", "2s"),
        ("retry_on", "transient, timeout"),
        ("on.timeout.max_attempts", "2"),
        ("hint.mode", "{ clamp = \"5s\" }"),
        ("idempotency.require", "true"),
        ("seed", "7"),
    ])
    .unwrap();
    assert_eq!(changed.max_attempts(), None);
    let linear = Backoff::new(Schedule::Linear { initial: secs(2), step: secs(1) }).uncapped();
    assert_eq!(changed.backoff(), &linear.jitter(Jitter::Proportional { factor: 0.5 }));
    assert_eq!(changed.deadline(), Some(Deadline { total: secs(9), reserve: secs(2) }));
    assert_eq!(changed.retry_on(), Classes::from([Class::Transient, Class::Timeout]));
    assert_eq!(changed.rules().len(), 1);
    assert_eq!(changed.hint().mode_used(), HintMode::Clamp(secs(5)));
    assert!(changed.requires_idempotency());
    assert_eq!(changed.seed(), Some(7));

    let replaced = with(&[("backoff.kind", "list"), ("backoff.waits", "1s,5s")]).unwrap();
    assert_eq!(replaced.backoff().schedule(), &Schedule::List(Box::new([secs(1), secs(5)])));
    // The order of flags does not matter.
    let one = with(&[("deadline", "8s"), ("deadline.reserve", "2s")]).unwrap();
    assert_eq!(one, with(&[("deadline.reserve", "2s"), ("deadline", "8s")]).unwrap());
    assert_eq!(one.deadline(), Some(Deadline { total: secs(8), reserve: secs(2) }));

    assert_eq!(
        with(&[("backoff.initial", "100"), ("backoff.multiplier", "NaN")]).unwrap_err(),
        "error[bad-duration]: `backoff.initial` is not a duration: a number without a unit
 |
 | --backoff-initial 100
 |                   ^^^ expected a duration such as \"1m30s\"
 = help: write `100s` or `100ms`

error[no-effect]: `multiplier` has no effect on a backoff of kind \"linear\"
 |
 | --backoff-multiplier NaN
 |                      ^^^
 = help: \"linear\" comes from [policies.p]; `multiplier` is for \"exponential\"
"
    );
    assert_eq!(
        with(&[("jitter", "ful")]).unwrap_err(),
        "error[unknown-word]: \"ful\" is not a word for `jitter`
 |
 | --jitter ful
 |          ^^^ expected \"none\", \"full\", \"equal\", \"proportional\", \"additive\", \"decorrelated\" or \"decorrelated_v2\"
 = help: did you mean \"full\"?
"
    );
    for bad in [
        &[("max_attempts", "0")][..],
        &[("max_attempts", "")],
        &[("max_attempts", "2"), ("max_attempts", "3")],
        &[("backoff", "{ cap = }")],
        &[("backoff.cap", "5s"), ("backoff", "{ cap = \"6s\" }")],
        &[("max_attempts", "3"), ("max_attempts.x", "3")],
        &[("colour", "red")],
        &[("jitter.factor", "0.2")],
        &[("waits", "1s")],
    ] {
        with(bad).unwrap_err();
    }
    let errors = file.policy_with("q", &[]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "error[unknown-policy]: relent.toml has no policy \"q\"\n = help: it has: p\n"
    );
}

#[test]
fn without_a_file_there_are_two_sets_of_defaults() {
    let none: &[Flag<'_>] = &[];
    assert_eq!(BuiltIn::Library.with(none).unwrap().policy(), &BuiltIn::Library.policy());
    assert_eq!(BuiltIn::Run.with(none).unwrap().policy(), &BuiltIn::Run.policy());
    let run = BuiltIn::Run.policy();
    assert_eq!(run.max_attempts(), Some(5));
    assert_eq!(run.backoff(), &Backoff::new(Schedule::exponential(secs(1))).cap(secs(60)));
    // A kind that does not grow is not capped behind one's back; one that does asks for a cap.
    let flags =
        [Flag::new("--backoff", "backoff.kind", "constant"), Flag::new("--initial", "backoff.initial", "5m")];
    assert_eq!(BuiltIn::Run.with(&flags).unwrap().policy().backoff().longest(), None);
    let flags = [Flag::new("--initial", "backoff.initial", "5m")];
    assert_eq!(BuiltIn::Run.with(&flags).unwrap_err().iter().next().unwrap().code(), Code::Conflict);
}

#[test]
fn errors_have_parts_for_those_who_colour_them() {
    let text = "\u{feff}version = 1\r\n[policies.p]\r\n\tdeadline = \"5\" # é\r\n";
    let errors = File::parse(text, "dir/relent.toml").unwrap_err();
    let error = errors.iter().next().unwrap();
    assert_eq!((error.line(), error.column()), (Some(3), Some(14)));
    assert_eq!(error.source(), Some("dir/relent.toml"));
    assert_eq!(&text.strip_prefix('\u{feff}').unwrap()[error.span().unwrap()], "5");
    let (line, columns) = error.excerpt().unwrap();
    assert_eq!(line, "    deadline = \"5\" # é");
    assert_eq!(&line[columns], "5");
    assert_eq!(error.label(), "expected a duration such as \"1m30s\"");
    assert_eq!(error.help(), ["write `\"5s\"` or `\"5ms\"`"]);
    assert_eq!(error.code().as_str(), "bad-duration");
    assert_eq!(errors.more(), 0);
}

#[test]
fn hostile_sizes_are_bounded() {
    let nest = |open: &str, close: &str, times: usize| {
        format!("version = 1\n[policies.p]\nx = {}1{}\n", open.repeat(times), close.repeat(times))
    };
    let long_chain = |count: usize| -> String {
        (1..=count).map(|n| format!("[policies.p{n}]\nbase = \"p{}\"\n", n - 1)).collect::<String>()
            + "[policies.p0]\n"
    };
    let limits = [
        nest("[", "]", 100_000),
        nest("{ a = ", " }", 20_000),
        format!("version = 1\n[policies.p]\n{}a = 1\n", "a.".repeat(100_000)),
        format!("version = 1\n[{}a]\n", "a . ".repeat(50_000)),
        format!("version = 1\n[[policies.{}a]]\n", "\"a\".".repeat(50_000)),
        format!("version = 1\n#{}\n", "x".repeat(1 << 18)),
        format!("version = 1\n{}", (0..1001).map(|n| format!("[policies.p{n}]\n")).collect::<String>()),
        format!("version = 1\n{}", long_chain(17)),
        format!(
            "version = 1\n[policies.p]\nbackoff = {{ kind = \"list\", waits = [{}] }}\n",
            "\"1s\",".repeat(1001)
        ),
    ];
    for text in limits {
        let errors = File::parse(&text, "x").unwrap_err();
        assert_eq!(errors.iter().next().unwrap().code(), Code::Limit, "{}", &text[..60]);
        assert!(errors.to_string().len() < 2_000);
    }
    assert!(File::parse(&format!("version = 1\n{}", long_chain(16)), "x").is_ok());
    let many = format!(
        "version = 1\n[policies.p]\n{}",
        (0..5_000).map(|n| format!("k{n} = 1\n")).collect::<String>()
    );
    let errors = File::parse(&many, "x").unwrap_err();
    assert_eq!((errors.iter().count(), errors.more()), (100, 4_900));
}
