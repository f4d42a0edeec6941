//! HELP of commands that have subcommands.
//!
//! `help.txt` contains the text: a command's name at the start of a line, then its help, each line
//! indented by one space.

use larder_proto::resp::Args;

use crate::redis::{ctx::Ctx, dispatch::text};

static WORDS: &str = include_str!("help.txt");

pub(crate) fn help(ctx: &mut Ctx<'_>, args: &Args<'_>) {
    let name = text(args.get(0)).to_ascii_lowercase();
    let lines: Vec<&str> = WORDS
        .lines()
        .skip_while(|line| *line != name)
        .skip(1)
        .map_while(|line| line.strip_prefix(' '))
        .collect();
    let head = format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        name.to_ascii_uppercase()
    );
    let mut reply = ctx.reply();
    reply.array(lines.len() + 3);
    reply.simple(&head);
    lines.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP");
    reply.simple("    Prints this help.");
}
