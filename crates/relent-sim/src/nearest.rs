//! Unknown names and the known one that was probably meant.

/// "unknown service "shpo"; did you mean "shop"?", or the known ones where none is near.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown {what} \"{name}\"; did you mean \"{near}\"?"),
        None if known.is_empty() => format!("unknown {what} \"{name}\"; there is none"),
        None => format!("unknown {what} \"{name}\"; known: {}", known.join(", ")),
    }
}

/// The known name with the fewest edits, if at most a third of its letters are wrong.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // Names from files may be long; those of ours are not.
    if name.len() > 64 {
        return None;
    }
    let edits = |known: &&&str| distance(name, known);
    let best = known.iter().min_by_key(edits)?;
    (distance(name, best) <= best.len().max(3) / 3).then_some(*best)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (above, to) in row.iter().skip(1).zip(b.chars()) {
            left = (above + 1).min(left + 1).min(diagonal + usize::from(from != to));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_listed() {
        assert_eq!(
            unknown("key", "hoizon", &["horizon", "bin"]),
            "unknown key \"hoizon\"; did you mean \"horizon\"?"
        );
        assert_eq!(unknown("key", "x", &["horizon", "bin"]), "unknown key \"x\"; known: horizon, bin");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
