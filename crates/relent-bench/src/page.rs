//! The page in the documentation that shows the tables.

use std::error::Error;
use std::fs;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
const END: &str = "<!-- to here -->\n";

/// Puts the figures between the two markers of `page`, of which the first one names the command that does so.
pub(crate) fn write(page: &str, command: &str, figures: &str) -> Result<(), Box<dyn Error>> {
    let path = format!("{DOCS}/{page}");
    let begin = format!("<!-- figures: `{command} --write` writes from here -->\n");
    let page = fs::read_to_string(&path)?;
    let (before, rest) = page.split_once(&begin).ok_or("the page has lost its first marker")?;
    let (_, after) = rest.split_once(END).ok_or("the page has lost its second marker")?;
    fs::write(path, format!("{before}{begin}\n{figures}\n{END}{after}"))?;
    Ok(())
}
