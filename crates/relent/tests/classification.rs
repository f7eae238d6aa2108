//! From an error to its class: kinds, marks, barriers, joined errors, and whatever wraps them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

mod chance;

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use relent::{
    Barrier, Class, Classify, Failure, Hint, Joined, Marked, Outcome, Policy, Portable, Reason, outcome_of,
    outcome_of_kind,
};

type Boxed = Box<dyn StdError + Send + Sync>;

fn class(error: &(dyn StdError + 'static)) -> Class {
    outcome_of(error).class
}

/// An error that says nothing about trying again, with a source.
#[derive(Debug, thiserror::Error)]
#[error("while asking")]
struct Asking(#[source] Boxed);

/// One that is told from its source by its type alone.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Transparent(Boxed);

/// The usual enum of a library.
#[derive(Debug, thiserror::Error)]
enum Library {
    #[error("cannot connect")]
    Connect(#[from] io::Error),
    #[error("a shared failure")]
    Shared(#[source] Arc<io::Error>),
    #[error(transparent)]
    GaveUp(#[from] relent::Error<io::Error>),
    #[error("could not say")]
    Wrapped(#[source] relent::Error<io::Error>),
}

fn reset() -> io::Error {
    ErrorKind::ConnectionReset.into()
}

fn gave_up() -> relent::Error<io::Error> {
    relent::blocking::retry(&Policy::never(), || Err::<(), _>(reset())).unwrap_err()
}

/// All wrappings that keep an error findable.
fn wrapped(error: impl Fn() -> Boxed) -> Vec<(&'static str, Boxed)> {
    vec![
        ("alone", error()),
        ("in an I/O error", io::Error::other(error()).into()),
        ("in an I/O error of a kind", io::Error::new(ErrorKind::InvalidData, error()).into()),
        ("in two I/O errors", io::Error::other(io::Error::other(error())).into()),
        ("as a source", Asking(error()).into()),
        ("as a source of a source", Asking(Asking(error()).into()).into()),
        ("as a source in an I/O error", io::Error::other(Asking(error())).into()),
        ("under anyhow's context", anyhow::Error::new(Asking(error())).context("for a while").into()),
        ("joined", Joined::new([error()]).into()),
        ("joined with what says nothing", Joined::new([Boxed::from("?"), error()]).into()),
        ("joined twice", Joined::new([Joined::new([error()]).into()]).into()),
        ("in a box", Box::new(Asking(error())).into()),
        ("in an Arc", Arc::new(Asking(error())).into()),
    ]
}

#[test]
fn marks_survive_wrapping() {
    for marked in Class::ALL {
        for (how, error) in wrapped(|| Marked::new(marked, "busy").into()) {
            assert_eq!(class(error.as_ref()), marked, "{how}");
        }
    }
    // In the pointers that are errors themselves, whose source skips what they point to.
    for error in
        [Box::new(Box::new(Marked::transient("busy"))) as Boxed, Arc::new(Marked::transient("busy")).into()]
    {
        assert_eq!(class(error.as_ref()), Class::Transient);
    }
    let throttled = Marked::throttled("slow down", Some(Duration::from_secs(7)));
    assert_eq!(outcome_of(&Asking(throttled.into())).hint, Some(Hint::After(Duration::from_secs(7))));
}

#[test]
fn the_outermost_mark_decides() {
    let inner = || Marked::transient("busy");
    assert_eq!(class(&Marked::permanent(inner())), Class::Permanent);
    assert_eq!(class(&Marked::permanent(Asking(inner().into()))), Class::Permanent);
    assert_eq!(class(&Marked::transient(Marked::permanent("gone"))), Class::Transient);
    // A mark is said on purpose: it goes before what a kind implies, wherever either is.
    assert_eq!(class(&io::Error::new(ErrorKind::NotFound, inner())), Class::Transient);
    assert_eq!(class(&Marked::permanent(reset())), Class::Permanent);
}

#[test]
fn a_mark_prints_as_what_it_marks() {
    let marked = Marked::transient(reset());
    assert_eq!(marked.to_string(), reset().to_string());
    assert!(marked.source().unwrap().is::<io::Error>());
    assert!(marked.into_inner().downcast::<io::Error>().is_ok());
}

#[test]
fn a_barrier_hides_what_is_behind_it() {
    for (how, error) in wrapped(|| Barrier::new(Marked::transient("busy")).into()) {
        assert_eq!(class(error.as_ref()), Class::Permanent, "{how}");
    }
    assert_eq!(
        class(&Marked::throttled(Barrier::new(reset()), None)),
        Class::Throttled,
        "a mark before it counts"
    );
    assert_eq!(class(&Arc::new(Barrier::new(reset()))), Class::Permanent);
    let barrier = Barrier::new("busy");
    assert!(barrier.source().is_none());
    assert_eq!((barrier.to_string(), barrier.hidden().to_string()), ("busy".into(), "busy".into()));
}

#[test]
fn branches_are_all_searched_and_permanent_wins() {
    let transient = || Boxed::from(Marked::transient("busy"));
    let permanent = || Boxed::from(Marked::permanent("gone"));
    for (branches, expected) in [
        (vec![], Class::Permanent),
        (vec![Boxed::from("?")], Class::Permanent),
        (vec![Boxed::from("?"), transient()], Class::Transient),
        (vec![Marked::throttled("slow down", None).into(), transient()], Class::Throttled),
        (vec![transient(), permanent()], Class::Permanent),
        (vec![permanent(), transient()], Class::Permanent),
        (vec![reset().into(), transient()], Class::Transient),
        (vec![transient(), Asking(Joined::new([permanent()]).into()).into()], Class::Permanent),
        (vec![transient(), gave_up().into()], Class::Permanent),
        (vec![transient(), Barrier::new("x").into()], Class::Permanent),
    ] {
        let joined = Joined::new(branches);
        assert_eq!(class(&joined), expected, "{joined}");
        assert_eq!(class(&Asking(joined.into())), expected);
    }
    let joined = Joined::new([]).and("one").and(reset());
    assert_eq!(joined.to_string(), "one; connection reset");
    assert_eq!(joined.errors().count(), 2);
}

/// An inner call that gave up has had its attempts: whatever it is wrapped in, and whatever its error's type.
#[test]
fn an_inner_call_is_permanent_to_an_outer_one() {
    for (how, error) in wrapped(|| gave_up().into()) {
        assert_eq!(class(error.as_ref()), Class::Permanent, "{how}");
    }
    for library in [Library::GaveUp(gave_up()), Library::Wrapped(gave_up())] {
        assert_eq!(class(&library), Class::Permanent, "{library:?}");
        assert_eq!(class(&Asking(library.into())), Class::Permanent);
    }
    assert_eq!(class(&Transparent(gave_up().into())), Class::Permanent);
    assert_eq!(class(&Transparent(Transparent(gave_up().into()).into())), Class::Permanent);
    assert_eq!(class(&Arc::new(gave_up())), Class::Permanent);
    // But what was said about it on purpose, further out, is what counts.
    assert_eq!(class(&Marked::transient(gave_up())), Class::Transient);

    // Of other error types, bare, boxed and dynamic.
    let never = Policy::never();
    let boxed =
        relent::blocking::retry(&never, || Err::<(), Boxed>(Marked::transient("busy").into())).unwrap_err();
    assert_eq!(class(&boxed), Class::Permanent);
    let dynamic = relent::blocking::retry(&never, || Err::<(), _>(anyhow::Error::from(reset()))).unwrap_err();
    assert_eq!(Failure::outcome(&anyhow::Error::from(dynamic)).class, Class::Permanent);
    let nested = relent::blocking::retry(&Policy::default(), || {
        relent::blocking::retry(&never, || Err::<(), _>(reset()))
    });
    let nested = nested.unwrap_err();
    assert_eq!((nested.attempts(), nested.reason()), (1, Reason::NotRetryable));
}

/// Errors that print in odd ways are asked like all others, and are none of ours.
#[test]
fn odd_ways_to_print_are_not_mistaken_for_ours() {
    #[derive(Debug)]
    struct Odd(fn(&mut fmt::Formatter<'_>) -> fmt::Result);
    impl fmt::Display for Odd {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(f)
        }
    }
    impl StdError for Odd {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            static SOURCE: std::sync::LazyLock<Marked> =
                std::sync::LazyLock::new(|| Marked::transient("busy"));
            Some(&*SOURCE)
        }
    }
    let odd: [fn(&mut fmt::Formatter<'_>) -> fmt::Result; 12] = [
        |_| Ok(()),
        |_| Err(fmt::Error),
        |f| f.write_str(""),
        |f| f.pad("padded to whatever width was asked for"),
        |f| f.write_str("relent"),
        |f| f.write_str("relent\0gave_up and then some"),
        |f| f.write_str("relent\0gave_up").and_then(|()| f.write_str("!")),
        |f| {
            // Goes on whatever it hears.
            let _ = f.write_str("no");
            let _ = f.write_str("relent\0gave_up");
            Ok(())
        },
        |f| fmt::Display::fmt(&std::f64::consts::PI, f),
        |f| fmt::Display::fmt(&u128::MAX, f),
        |f| fmt::Debug::fmt("relent", f),
        |f| fmt::Display::fmt(&"x".repeat(100_000), f),
    ];
    for (index, print) in odd.into_iter().enumerate() {
        assert_eq!(class(&Odd(print)), Class::Transient, "{index}: its source's mark was found");
    }
    // And ours never shows the sign to a reader.
    for text in [format!("{:>80}", gave_up()), format!("{:.3}", gave_up()), format!("{:80.3}", gave_up())] {
        assert_eq!(text, "gave up after 1 attempt: no attempts left");
    }
}

#[test]
fn a_chain_without_end_ends() {
    #[derive(Debug)]
    struct Endless;
    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("again")
        }
    }
    impl StdError for Endless {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(self)
        }
    }
    assert_eq!(class(&Endless), Class::Permanent);
    assert_eq!(class(&Joined::new([Endless.into(), Marked::transient("busy").into()])), Class::Transient);
    assert!(Portable::of(&Endless).causes().len() <= 128);

    let deep = |depth: usize| {
        (0..depth).fold(Boxed::from(Marked::transient("busy")), |error, _| Asking(error).into())
    };
    assert_eq!(class(deep(127).as_ref()), Class::Transient);
    assert_eq!(class(deep(128).as_ref()), Class::Permanent, "as documented");
    assert_eq!(class(deep(10_000).as_ref()), Class::Permanent);
}

#[test]
fn kinds_of_io_errors_have_the_classes_of_the_table() {
    use ErrorKind::*;
    let table = [
        (Class::NotSent, vec![ConnectionRefused]),
        (Class::Transient, vec![ConnectionReset, ConnectionAborted, BrokenPipe, UnexpectedEof, NotConnected]),
        (Class::Transient, vec![HostUnreachable, NetworkUnreachable, NetworkDown, AddrNotAvailable]),
        (Class::Transient, vec![Interrupted, WouldBlock, ResourceBusy, Deadlock, ExecutableFileBusy]),
        (Class::Transient, vec![StaleNetworkFileHandle]),
        (Class::Timeout, vec![TimedOut]),
        (
            Class::Permanent,
            vec![NotFound, PermissionDenied, AlreadyExists, InvalidInput, InvalidData, AddrInUse],
        ),
        (
            Class::Permanent,
            vec![NotADirectory, IsADirectory, DirectoryNotEmpty, ReadOnlyFilesystem, StorageFull],
        ),
        (Class::Permanent, vec![NotSeekable, QuotaExceeded, FileTooLarge, CrossesDevices, TooManyLinks]),
        (
            Class::Permanent,
            vec![InvalidFilename, ArgumentListTooLong, WriteZero, Unsupported, OutOfMemory, Other],
        ),
    ];
    for (expected, kinds) in table {
        for kind in kinds {
            assert_eq!(outcome_of_kind(kind), Outcome::of(expected), "{kind:?}");
            assert_eq!(class(&io::Error::from(kind)), expected, "{kind:?}");
            assert_eq!(class(&io::Error::new(kind, "with a text")), expected, "{kind:?}");
            assert_eq!(class(&Asking(io::Error::from(kind).into())), expected, "{kind:?}");
            assert_eq!(class(&Library::Connect(kind.into())), expected, "{kind:?}");
            assert_eq!(class(&Library::Shared(Arc::new(kind.into()))), expected, "{kind:?}");
        }
    }
    // A kind goes before those of what it wraps, except `Other`, which says nothing.
    assert_eq!(class(&io::Error::new(NotFound, reset())), Class::Permanent);
    assert_eq!(class(&io::Error::other(reset())), Class::Transient);
    assert_eq!(class(&io::Error::other("who knows")), Class::Permanent);
    // The operating system's own numbers: 104 is ECONNRESET on Linux.
    #[cfg(target_os = "linux")]
    assert_eq!(class(&io::Error::from_raw_os_error(104)), Class::Transient);
}

/// What `retry` accepts without being told how.
#[test]
fn errors_that_judge_themselves() {
    fn judged<Via, E: Failure<Via>>(error: E) -> Class {
        error.outcome().class
    }
    enum Mine {
        Busy,
    }
    impl Classify for Mine {
        fn outcome(&self) -> Outcome {
            match self {
                Self::Busy => Class::Throttled.into(),
            }
        }
    }
    let marked = || Marked::transient("busy");
    assert_eq!(judged(Mine::Busy), Class::Throttled);
    assert_eq!(judged(reset()), Class::Transient);
    assert_eq!(judged(marked()), Class::Transient);
    assert_eq!(judged(Barrier::new(marked())), Class::Permanent);
    assert_eq!(judged(Joined::new([marked().into()])), Class::Transient);
    assert_eq!(judged(Portable::of(&marked())), Class::Transient);
    assert_eq!(judged(gave_up()), Class::Permanent);
    assert_eq!(judged(Box::new(marked()) as Box<dyn StdError>), Class::Transient);
    assert_eq!(judged(Box::new(marked()) as Box<dyn StdError + Send>), Class::Transient);
    assert_eq!(judged(Boxed::from(marked())), Class::Transient);
    assert_eq!(judged(std::rc::Rc::new(marked()) as std::rc::Rc<dyn StdError>), Class::Transient);
    assert_eq!(judged(Arc::new(marked()) as Arc<dyn StdError>), Class::Transient);
    assert_eq!(judged(Arc::new(marked()) as Arc<dyn StdError + Send + Sync>), Class::Transient);
    assert_eq!(judged(anyhow::Error::from(marked())), Class::Transient);
    assert_eq!(judged(anyhow::Error::from(marked()).context("a").context("b")), Class::Transient);
    assert_eq!(judged(anyhow::anyhow!("who knows")), Class::Permanent);
}

/// `anyhow` hides a context's type from the source chain: the error as a whole is asked for it.
#[cfg(feature = "anyhow")]
#[test]
fn classes_as_context() {
    let of = |error: anyhow::Error| Failure::outcome(&error);
    let unknown = || anyhow::anyhow!("who knows");
    for class in Class::ALL {
        assert_eq!(of(unknown().context(class)), Outcome::of(class));
        assert_eq!(of(unknown().context("inner").context(class).context("outer")), Outcome::of(class));
        assert_eq!(of(anyhow::Error::from(reset()).context(class)), Outcome::of(class));
    }
    assert_eq!(of(unknown().context(Class::Permanent).context(Class::Transient)).class, Class::Transient);
    assert_eq!(of(anyhow::Error::from(gave_up()).context(Class::Transient)).class, Class::Transient);
    assert_eq!(of(unknown().context(Class::Throttled)).class, Class::Throttled);
    assert_eq!(unknown().context(Class::Transient).to_string(), "transient");
}

#[test]
fn the_last_error_prints_in_the_chain() {
    let error = anyhow::Error::from(gave_up());
    assert_eq!(format!("{error:#}"), "gave up after 1 attempt: no attempts left: connection reset");
    let never = Policy::never();
    let asking = || anyhow::Error::from(reset()).context("while asking");
    let dynamic = relent::blocking::retry(&never, || Err::<(), _>(asking())).unwrap_err();
    assert_eq!(
        format!("{:#}", anyhow::Error::from(dynamic)),
        "gave up after 1 attempt: no attempts left: while asking: connection reset"
    );
    let told =
        relent::blocking::with(&never).when(|_: &anyhow::Error| true).retry(|_| Err::<(), _>(asking()));
    let told = told.unwrap_err().into_kind::<relent::Dynamic>();
    assert_eq!(told.source().unwrap().to_string(), "while asking");
}

#[test]
fn portable_errors_keep_class_and_texts() {
    let error = Asking(Marked::throttled(reset(), None).into());
    let portable = Portable::of(&error);
    assert_eq!(portable.class(), Class::Throttled);
    assert_eq!(portable.causes(), ["connection reset"], "a mark and what it marks are one text");
    assert_eq!(portable.to_string(), "while asking: connection reset");
    for (how, error) in wrapped(|| Portable::of(&error).into()) {
        assert_eq!(class(error.as_ref()), Class::Throttled, "{how}");
    }
    assert_eq!(Portable::of(&gave_up()).class(), Class::Permanent);
    assert_eq!(Portable::of(&Barrier::new(reset())).class(), Class::Permanent);
    for unreadable in
        ["", "relent/1", "relent/1 ", "relent/1 busy\nx", "relent/1 transient", "relent/2 transient\nx"]
    {
        assert!(unreadable.parse::<Portable>().is_err(), "{unreadable:?}");
    }
    assert_eq!("relent/1 transient\n".parse::<Portable>().unwrap().to_string(), "");
}

/// An error with any text and any causes.
#[derive(Debug)]
struct Told(String, Option<Boxed>);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Told {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.1.as_deref().map(|error| error as &(dyn StdError + 'static))
    }
}

proptest! {
    #![proptest_config(chance::config(256))]

    #[test]
    fn portable_errors_come_back_as_they_were(
        class in prop::sample::select(&Class::ALL[..]),
        texts in prop::collection::vec("[a-c\\\\\n\r nü\u{0}]{0,6}|\\PC*", 1..5),
    ) {
        let chain = texts.iter().rev().fold(None, |cause, text| {
            Some(Box::new(Told(text.clone(), cause)) as Boxed)
        });
        let portable = Portable::of(&Marked::new(class, chain.unwrap()));
        prop_assert_eq!(portable.class(), class);
        let read: Portable = portable.to_text().parse().unwrap();
        prop_assert_eq!(&read, &portable);
        #[cfg(feature = "serde")]
        {
            let json = serde_json::to_string(&portable).unwrap();
            prop_assert_eq!(serde_json::from_str::<Portable>(&json).unwrap(), portable);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(relent/1 (transient|success)\n)?\\PC*(\n|\\\\)*\\PC*") {
        if let Ok(portable) = text.parse::<Portable>() {
            prop_assert_eq!(portable.to_text().parse::<Portable>().unwrap(), portable);
        }
    }
}
