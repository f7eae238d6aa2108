//! The walk through an error's causes.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use relent_core::{Class, Outcome};

use super::{Barrier, Joined, Marked, Portable, outcome_of_kind};

/// What an error says about trying again, found anywhere in its source chain.
///
/// First the chain is searched for what was said on purpose: a [`Marked`] or [`Portable`] error, relent's own
/// [`Error`](crate::Error) (permanent: an inner call that gave up has had its attempts), all branches of a [`Joined`]
/// error; the outermost decides, and a [`Barrier`] ends the search. Then for the outermost [`std::io::Error`], whose
/// kind decides. Each is found in a `Box` and in an `Arc`, too. An error that says nothing is permanent: what is not
/// known to be worth a try gets none. The search ends after 128 causes: a longer chain leads in a circle.
pub fn outcome_of(error: &(dyn StdError + 'static)) -> Outcome {
    said(error, DEEPEST).or_else(|| implied(error)).unwrap_or(Outcome::of(Class::Permanent))
}

const DEEPEST: usize = 128;

/// What was said on purpose.
fn said(error: &(dyn StdError + 'static), depth: usize) -> Option<Outcome> {
    let depth = depth.checked_sub(1)?;
    if let Some(marked) = seen_as::<Marked>(error) {
        return Some(marked.mark());
    }
    if let Some(portable) = seen_as::<Portable>(error) {
        return Some(Outcome::of(portable.class()));
    }
    if seen_as::<Barrier>(error).is_some() {
        return Some(Outcome::of(Class::Permanent));
    }
    if let Some(joined) = seen_as::<Joined>(error) {
        let mut branches =
            joined.errors().filter_map(|branch| said(branch, depth).or_else(|| implied(branch)));
        let first = branches.next()?;
        let permanent = |outcome: &Outcome| outcome.class == Class::Permanent;
        return Some(if permanent(&first) { first } else { branches.find(permanent).unwrap_or(first) });
    }
    // An I/O error is none of ours, and what it wraps is asked in its turn.
    if seen_as::<io::Error>(error).is_none() && answers_as_gave_up(error) {
        return Some(Outcome::of(Class::Permanent));
    }
    said(cause(error)?, depth)
}

/// What the kind of an I/O error implies.
fn implied(error: &(dyn StdError + 'static)) -> Option<Outcome> {
    let chain = std::iter::successors(Some(error), |error| cause(*error)).take(DEEPEST);
    let io = chain.filter_map(seen_as::<io::Error>);
    // An `Other` is a wrapper more often than a kind: what it wraps knows better.
    let mut kinds = io.map(io::Error::kind).filter(|kind| *kind != io::ErrorKind::Other);
    kinds.next().map(outcome_of_kind)
}

/// The next error of the chain. An I/O error's own `source` skips the error that it wraps.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match seen_as::<io::Error>(error).and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// `error` as an `E`, also through the pointers that are errors themselves: their `source` skips what they point to.
fn seen_as<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    error
        .downcast_ref::<E>()
        .or_else(|| error.downcast_ref::<Box<E>>().map(AsRef::as_ref))
        .or_else(|| error.downcast_ref::<Arc<E>>().map(AsRef::as_ref))
}

/// Whether `error` is relent's own [`Error`](crate::Error), of whatever type parameters.
///
/// A generic type cannot be found by `downcast_ref` without knowing its parameters, and `dyn Error` offers no other
/// question that every error answers but printing. So it is asked to print at a width and precision that nobody
/// prints at, and relent's error alone answers with its own sign. Whatever forwards its printing as a whole, as
/// transparent wrappers, `Box` and `Arc` do, answers as what it wraps. What prints itself hears a refusal at its first
/// word and ends there; what ignores the refusal is not listened to.
pub(crate) fn answers_as_gave_up(error: &(dyn StdError + 'static)) -> bool {
    let mut ear = Ear { heard: 0, wrong: false };
    // The ear refuses all but the sign, which ends the printing early; that is no failure of anything.
    let _ = write!(ear, "{error:WIDTH$.PRECISION$}", WIDTH = ASKED.0, PRECISION = ASKED.1);
    ear.heard == SIGN.len() && !ear.wrong
}

const ASKED: (usize, usize) = (0xA5C, 0x51D);
const SIGN: &str = "relent\u{0}gave_up";

/// Prints the sign instead of the message where it is asked for. Called by relent's own error.
pub(crate) fn answer(f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
    (f.width() == Some(ASKED.0) && f.precision() == Some(ASKED.1)).then(|| f.write_str(SIGN))
}

/// Listens for the sign, and for nothing else.
struct Ear {
    heard: usize,
    wrong: bool,
}

impl fmt::Write for Ear {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let expected = SIGN.get(self.heard..).is_some_and(|rest| rest.starts_with(text));
        if !expected {
            self.wrong = true;
            return Err(fmt::Error);
        }
        self.heard += text.len();
        Ok(())
    }
}
