//! Prints a built-in scenario's comparison: `cargo run --release -p relent-sim --example show -- herd clients=1000`.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, options) = words.split_first().ok_or("a scenario's name, then options as KEY=VALUE")?;
    let options: Vec<(&str, &str)> = options.iter().filter_map(|word| word.split_once('=')).collect();
    let scenario = relent_sim::built_in(name, &options)?;
    let simulation = relent_sim::Simulation::new(scenario).line_up();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n", simulation.estimate())?;
    let comparison = simulation.run()?;
    writeln!(
        out,
        "{}\n{}\n{}",
        comparison.table(false),
        comparison.chart(100, false),
        comparison.sentence()
    )?;
    Ok(())
}
