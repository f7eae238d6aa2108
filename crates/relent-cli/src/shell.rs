//! What the one definition of the command line is also good for: completions and manual pages.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::shells;

use crate::args::{Cli, Shell};
use crate::exit::{Error, ExitCode};

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Error> {
    let mut command = Cli::command();
    // Written at once: the generators expect that writing cannot fail, and a pipe may close.
    let mut script = Vec::new();
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, "relent", &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, "relent", &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, "relent", &mut script),
    }
    io::stdout().write_all(&script)?;
    Ok(ExitCode::Success)
}

/// Prints the manual page of the program, or of one of its commands.
pub(crate) fn man(name: Option<&str>) -> Result<ExitCode, Error> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let title = name.map_or("relent".to_owned(), |name| format!("relent-{name}"));
    let command = match name {
        None => program,
        Some(name) => {
            let known: Vec<_> =
                program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
            let found = program.get_subcommands().find(|command| command.get_name() == name).cloned();
            let unknown = || {
                Error::usage(format!("man: there is no command \"{name}\""))
                    .help(format!("one of: {}", known.join(", ")))
            };
            let found = found.ok_or_else(unknown)?;
            found.display_name(title.clone())
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).title(title).render(&mut page)?;
    io::stdout().write_all(&page)?;
    Ok(ExitCode::Success)
}
