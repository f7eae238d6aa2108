//! The command `relent`.

mod args;
mod chart;
mod demo;
mod durations;
mod exit;
mod explain;
mod policy_args;
mod shell;
mod terminal;

use std::io::{self, Write};
use std::process;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::exit::{Error, ExitCode};
use crate::terminal::Terminal;

fn main() -> process::ExitCode {
    let cli = Cli::parse();
    cli.color.apply();
    let code = match dispatch(cli.command) {
        Ok(code) => code,
        // The reader of our output has left (`relent explain | head -1`): nobody is there to be told.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Success,
        Err(error) => {
            // If standard error is closed too, the exit code is all that is left to say.
            let _ = write!(anstream::stderr(), "{error}");
            error.exit_code()
        }
    };
    code.into()
}

fn dispatch(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Demo(args) => demo::run(&args, &Terminal::of_stdout()),
        Command::Explain(args) => explain::run(&args, &Terminal::of_stdout()),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { command } => shell::man(command.as_deref()),
    }
}
