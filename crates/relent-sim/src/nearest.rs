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

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut two_above: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (at(&above, j + 1) + 1).min(at(&row, j) + 1);
            best = best.min(at(&above, j) + usize::from(from != to));
            if i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from) {
                best = best.min(at(&two_above, j - 1) + 1);
            }
            row.push(best);
        }
        two_above = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
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
        assert_eq!(distance("shpo", "shop"), 1);
    }
}
