//! The command `relent`.

mod args;
mod chart;
mod demo;
mod durations;
mod exit;
mod explain;
mod flaky;
mod fleet;
mod policy_args;
mod run;
mod shell;
mod simulate;
mod surroundings;
mod terminal;

use std::env;
use std::io::{self, Write};
use std::process;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::args::{Cli, Color, Command};
use crate::exit::{Error, ExitCode};
use crate::policy_args::PolicyArgs;
use crate::terminal::Terminal;

fn main() -> process::ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refused(error).into(),
    };
    cli.color.apply();
    let runs = matches!(cli.command, Command::Run(_));
    let code = match dispatch(cli.command) {
        Ok(code) => code,
        // The reader of our output has left (`relent explain | head -1`): nobody is there to be told.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Success,
        Err(error) => {
            // If standard error is closed too, the exit code is all that is left to say.
            let _ = write!(anstream::stderr(), "{error}");
            if runs { run::BAD_USAGE } else { error.exit_code() }
        }
    };
    code.into()
}

/// Commands are started through `run` often and in scripts, where each millisecond is multiplied: it does not wait until
/// the definitions of all the other commands are built. What is not plain goes the long way.
fn parse() -> Result<Cli, clap::Error> {
    if env::args_os().nth(1).is_some_and(|command| command == "run")
        && let Ok(args) = run::Args::parse_alone(env::args_os().skip(1))
    {
        return Ok(Cli { color: Color::default(), command: Command::Run(Box::new(args)) });
    }
    Cli::try_parse()
}

fn dispatch(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Demo(args) => demo::run(&args, &Terminal::of_stdout()),
        Command::Explain(args) => explain::run(&args, &Terminal::of_stdout()),
        Command::Flaky(args) => flaky::run(*args),
        Command::Run(args) => run::run(*args),
        Command::Simulate(args) => simulate::run(*args, &Terminal::of_stdout()),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { command } => shell::man(command.as_deref()),
    }
}

/// What clap refused, or was asked for, such as help.
fn refused(mut error: clap::Error) -> ExitCode {
    let asked = Cli::command().ignore_errors(true).try_get_matches_from(env::args_os());
    let command = asked.as_ref().ok().and_then(clap::ArgMatches::subcommand_name);
    if matches!(command, Some("run" | "explain")) {
        translate(&mut error);
    }
    let printed = error.print();
    match (error.use_stderr(), printed) {
        (false, Err(failed)) if failed.kind() != io::ErrorKind::BrokenPipe => ExitCode::Failure,
        (false, _) => ExitCode::Success,
        // The codes below 125 belong to the command that was to be run.
        (true, _) if command == Some("run") => run::BAD_USAGE,
        (true, _) => ExitCode::Usage,
    }
}

/// An option that goes by another system's name gets ours as the tip.
fn translate(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    let Some(ours) = relent_config::our_name(given).filter(|_| error.kind() == ErrorKind::UnknownArgument)
    else {
        return;
    };
    let Some(option) = PolicyArgs::option_for(ours.path) else { return };
    let note = ours.note.map(|note| format!(" ({note})")).unwrap_or_default();
    let tip = format!("relent calls it '{option}'{note}");
    // The usage was made for what clap took the option for.
    error.remove(ContextKind::Usage);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}
