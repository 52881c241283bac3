//! The manual pages, one for each subcommand.

use clap::Command;
use clap_mangen::Man;
use std::{fs, io, path::Path};

/// The width of the pages' source. mandoc recommends 80 bytes, with the end of the line.
const COLUMNS: usize = 79;

/// Writes the pages of a command and of its subcommands into a folder. The date is that of the pages, `2026-11-23`.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(command: Command, date: &str, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_page(&command, date, folder)
}

fn write_page(command: &Command, date: &str, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_page(subcommand, date, folder)?;
    }
    let page = Man::new(command.clone());
    let file = page.get_filename();
    let title = file.trim_end_matches(".1").to_uppercase();
    let mut text = Vec::new();
    page.title(title).date(date).source("kube-admission-proxy").render(&mut text)?;
    fs::write(folder.join(file), tidied(&String::from_utf8_lossy(&text)))
}

/// Returns a page without what mandoc warns of: line breaks around empty lines, spaces at ends of lines, long lines.
fn tidied(page: &str) -> String {
    let mut tidied = String::new();
    for line in page.replace("\n.br\n\n.br\n", "\n.sp\n").lines() {
        wrap(line.trim_end(), &mut tidied);
    }
    tidied
}

/// Appends a line of text as lines of at most [`COLUMNS`], unless a word is longer. A line that begins with `.` or `'` would be a macro:
/// a word that does stays behind the word before it.
fn wrap(line: &str, wrapped: &mut String) {
    if line.starts_with('.') {
        wrapped.push_str(line);
        wrapped.push('\n');
        return;
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match words.last_mut() {
            Some(last) if word.is_empty() || word.starts_with(['.', '\'']) => *last = format!("{last} {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    let mut column = 0;
    for word in words {
        let width = word.chars().count();
        if column > 0 {
            let fits = column + 1 + width <= COLUMNS;
            wrapped.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        wrapped.push_str(&word);
        column += width;
    }
    wrapped.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Arguments;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_subcommand_has_a_page_with_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        write(Arguments::command(), "2026-11-23", folder.path()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page("kube-admission-proxy.1").contains(".TH KUBE-ADMISSION-PROXY 1 2026-11-23 "));
        assert!(page("kube-admission-proxy-print-rbac.1").contains("\\-\\-by\\-plugin"));
        let serve = page("kube-admission-proxy-serve.1");
        for flag in Arguments::command().find_subcommand("serve").unwrap().get_arguments() {
            if let Some(name) = flag.get_long().filter(|_| !flag.is_hide_set()) {
                assert!(serve.contains(&format!("\\-\\-{}", name.replace('-', "\\-"))), "--{name} has no entry");
            }
        }
        assert!(folder.path().join("kube-admission-proxy-man.1").exists());
    }

    #[test]
    fn long_lines_are_wrapped_where_no_macro_begins() {
        let word = "x".repeat(COLUMNS - 1);
        for (line, wrapped) in [
            ("a b", "a b\n".to_owned()),
            (&*format!("{word} b"), format!("{word}\nb\n")),
            (&*format!("a {word} .b c"), format!("a\n{word} .b\nc\n")),
            (&*format!(".TH {word} b"), format!(".TH {word} b\n")),
        ] {
            let mut found = String::new();
            wrap(line, &mut found);
            assert_eq!(found, wrapped);
        }
    }
}
