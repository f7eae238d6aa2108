//! The endpoints that a call may go to.

use std::sync::Arc;

/// The endpoints that a call may go to, in order of preference.
///
/// Attempt 1 goes to the first, each further attempt to the next, and round again: an endpoint that has just failed
/// comes last. Made from one name or from a list.
#[derive(Clone, Debug, Default)]
pub struct Targets(Kept);

#[derive(Clone, Debug, Default)]
enum Kept {
    #[default]
    None,
    One(&'static str),
    List(Arc<[Arc<str>]>),
}

impl Targets {
    /// The endpoint of attempt number `attempt`, if any was given.
    pub fn of_attempt(&self, attempt: u32) -> Option<&str> {
        match &self.0 {
            Kept::None => None,
            Kept::One(name) => Some(name),
            Kept::List(list) => {
                let turn = usize::try_from(attempt.saturating_sub(1)).unwrap_or(0);
                list.get(turn.checked_rem(list.len())?).map(AsRef::as_ref)
            }
        }
    }

    /// The endpoints that failed before attempt number `attempt`, each once.
    pub fn failed_before(&self, attempt: u32) -> impl Iterator<Item = &str> {
        let known = match &self.0 {
            Kept::None => 0,
            Kept::One(_) => 1,
            Kept::List(list) => u32::try_from(list.len()).unwrap_or(u32::MAX),
        };
        (1..attempt.min(known.saturating_add(1))).filter_map(|earlier| self.of_attempt(earlier))
    }
}

impl From<&'static str> for Targets {
    fn from(name: &'static str) -> Self {
        Self(Kept::One(name))
    }
}

impl From<String> for Targets {
    fn from(name: String) -> Self {
        [name].into_iter().collect()
    }
}

impl From<Arc<[Arc<str>]>> for Targets {
    fn from(names: Arc<[Arc<str>]>) -> Self {
        Self(Kept::List(names))
    }
}

impl<S: Into<Arc<str>>> FromIterator<S> for Targets {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(Kept::List(names.into_iter().map(Into::into).collect()))
    }
}

impl<S: Into<Arc<str>>, const N: usize> From<[S; N]> for Targets {
    fn from(names: [S; N]) -> Self {
        names.into_iter().collect()
    }
}

impl<S: Into<Arc<str>>> From<Vec<S>> for Targets {
    fn from(names: Vec<S>) -> Self {
        names.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_take_turns_and_the_failed_ones_are_known() {
        let targets = Targets::from(["a", "b", "c"]);
        let turns: Vec<_> = (1..=5).filter_map(|attempt| targets.of_attempt(attempt)).collect();
        assert_eq!(turns, ["a", "b", "c", "a", "b"]);
        let failed = |attempt| targets.failed_before(attempt).collect::<Vec<_>>();
        assert_eq!(failed(1), Vec::<&str>::new());
        assert_eq!(failed(2), ["a"]);
        assert_eq!(failed(3), ["a", "b"]);
        assert_eq!(failed(9), ["a", "b", "c"]);
    }

    #[test]
    fn none_and_an_empty_list_name_nothing() {
        assert_eq!(Targets::default().of_attempt(1), None);
        assert_eq!(Targets::from(Vec::<String>::new()).of_attempt(7), None);
        assert_eq!(Targets::from("one").of_attempt(7), Some("one"));
        assert_eq!(Targets::from("one").failed_before(7).count(), 1);
    }
}
