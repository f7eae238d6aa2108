//! The table in blocks that fit the terminal: as many policies side by side as there is room for.

use relent_sim::Comparison;

/// Its lines, with the names of the figures in each block.
pub(super) fn of(comparison: &Comparison, width: usize) -> String {
    // Colours that nobody can see are taken out by the stream.
    let table = comparison.table(true);
    let names: Vec<_> = comparison.reports.iter().map(|report| report.name.as_str()).collect();
    let titles = comparison.measures().into_iter().map(|measure| measure.title().chars().count());
    let columns = columns(table.lines().next().unwrap_or_default(), &names, titles.max().unwrap_or(0));
    let mut text = String::new();
    for (index, block) in blocks(&columns, width).iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for line in table.lines() {
            let cells: String = block.iter().map(|(from, to)| cut(line, *from, *to)).collect();
            text.push_str(cells.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Where each column begins and ends. The first holds the figures' names and is `first` wide; the heading of each other
/// ends one place before it, where the mark of the best stands.
fn columns(heading: &str, names: &[&str], first: usize) -> Vec<(usize, usize)> {
    let mut columns = vec![(0, first)];
    let mut rest = heading;
    let mut end = 0;
    for name in names {
        let Some((before, after)) = rest.split_once(name) else { break };
        end += before.chars().count() + name.chars().count();
        let from = columns.last().map_or(0, |column| column.1);
        columns.push((from, end + 1));
        rest = after;
    }
    columns
}

/// The columns of each block: the first, and as many others as fit, but at least one.
fn blocks(columns: &[(usize, usize)], width: usize) -> Vec<Vec<(usize, usize)>> {
    let Some((first, others)) = columns.split_first() else { return Vec::new() };
    let mut blocks: Vec<Vec<_>> = Vec::new();
    let mut used = 0;
    for column in others {
        let wide = column.1 - column.0;
        match blocks.last_mut() {
            Some(block) if used + wide <= width => {
                block.push(*column);
                used += wide;
            }
            _ => {
                blocks.push(vec![*first, *column]);
                used = first.1 + wide;
            }
        }
    }
    blocks
}

/// What stands from one place to another. Escape sequences take no place and stay with what follows.
fn cut(line: &str, from: usize, to: usize) -> String {
    let mut place = 0;
    let mut escaped = false;
    let mut piece = String::new();
    for letter in line.chars() {
        let within = (from..to).contains(&place);
        if letter == '\x1b' {
            escaped = true;
        }
        if within {
            piece.push(letter);
        }
        if escaped {
            escaped = letter != 'm';
        } else {
            place += 1;
        }
    }
    let missing = to.saturating_sub(place.max(from));
    piece + &" ".repeat(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_headings_and_blocks_fit() {
        let heading = "           a    strategy:b    c d";
        let found = columns(heading, &["a", "strategy:b", "c d"], 8);
        assert_eq!(found, [(0, 8), (8, 13), (13, 27), (27, 34)]);
        assert_eq!(blocks(&found, 34).len(), 1);
        assert_eq!(blocks(&found, 33), [vec![(0, 8), (8, 13), (13, 27)], vec![(0, 8), (27, 34)]]);
        assert_eq!(blocks(&found, 1).len(), 3);
    }

    #[test]
    fn what_is_cut_keeps_its_colours_and_its_width() {
        assert_eq!(cut("ab \x1b[1m12\x1b[0m* 3", 3, 6), "\x1b[1m12\x1b[0m*");
        assert_eq!(cut("ab", 1, 4), "b  ");
        assert_eq!(cut("ab", 3, 5), "  ");
    }
}
