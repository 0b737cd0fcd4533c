//! Runs a project's `build.sh`. Its output is shown as it arrives. If there is an error in the plugin's own source,
//! only the place, the line and the message are shown. Tools for Python and JavaScript also print pages about
//! themselves.

use std::{
    fmt, fs,
    io::{self, Read, Write as _},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// The file in the folder `build` with the whole output.
const LOG: &str = "build.log";

/// The beginnings of the lines with which an error starts in the output of the tools.
const ERROR_BEGINS: [&str; 2] = ["Traceback (most recent call last)", "✘ [ERROR]"];

/// Runs the script in the plugin's folder.
///
/// # Errors
/// The script cannot be started, or fails.
pub(super) fn run(script: &Path, dir: &Path) -> Result<()> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(script);
    command.current_dir(dir).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", script.display()))?;
    // The command holds ends of the pipe. The pipe must end together with the script.
    drop(command);
    let mut output = Output::default();
    let shown = output.show(reader);
    let status = child.wait()?;
    shown.context("cannot read the output of build.sh")?;
    let held_back = String::from_utf8_lossy(&output.held_back).into_owned();
    if !status.success()
        && let Some(error) = SourceError::find(&held_back, dir)
    {
        let log = dir.join("build").join(LOG);
        // A log that cannot be written is ignored, because the message of the error is more important.
        let _ = log.parent().map(fs::create_dir_all);
        let _ = fs::write(&log, &output.all);
        bail!("{error}\n(the complete output of the tools: {})", log.display());
    }
    io::stderr().write_all(held_back.as_bytes())?;
    if !status.success() {
        bail!("{} failed", script.display());
    }
    Ok(())
}

/// The output of a script.
#[derive(Default)]
struct Output {
    all: Vec<u8>,
    /// The output from the first line that begins an error.
    held_back: Vec<u8>,
}

impl Output {
    /// Shows each line until an error begins. A line that grows, such as a progress bar, is shown while it grows.
    fn show(&mut self, mut from: impl Read) -> io::Result<()> {
        let mut chunk = [0; 4096];
        // `done` is the part of `all` that was shown or held back, and `line` is the beginning of its last line.
        let (mut done, mut line) = (0, 0);
        loop {
            let n_read = from.read(&mut chunk)?;
            self.all.extend_from_slice(&chunk[..n_read]);
            let is_end = n_read == 0;
            while done < self.all.len() {
                let rest = &self.all[done..];
                let end = rest.iter().position(|byte| *byte == b'\n').map(|at| done + at + 1);
                if end.is_none() && done == line && may_begin_an_error(rest) && !is_end {
                    break;
                }
                let is_held_back = !self.held_back.is_empty() || done == line && begins_an_error(rest);
                let part = &self.all[done..end.unwrap_or(self.all.len())];
                if is_held_back {
                    self.held_back.extend_from_slice(part);
                } else {
                    io::stderr().write_all(part)?;
                }
                done += part.len();
                line = end.unwrap_or(line);
            }
            if is_end {
                return Ok(());
            }
        }
    }
}

fn begins_an_error(line: &[u8]) -> bool {
    ERROR_BEGINS.iter().any(|begin| line.starts_with(begin.as_bytes()))
}

/// Whether a line that is not complete may be the beginning of an error.
fn may_begin_an_error(line: &[u8]) -> bool {
    ERROR_BEGINS.iter().any(|begin| begin.as_bytes().starts_with(line))
}

/// An error in the plugin's own source.
#[derive(Debug, PartialEq, Eq)]
struct SourceError {
    /// The place, such as `plugin.py:12`.
    place: String,
    /// The line of the source.
    source: String,
    message: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n    {}\n{}", self.place, self.source, self.message)
    }
}

impl SourceError {
    fn find(text: &str, dir: &Path) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        Self::of_python(&lines, dir).or_else(|| Self::of_esbuild(&lines))
    }

    /// Finds the last frame of a traceback in the plugin's folder, and the exception after it. The interpreter in the
    /// component runs the module once. The interpreter calls that folder `/1`, because the folder is the second of the
    /// build script's `--python-path`.
    fn of_python(lines: &[&str], dir: &Path) -> Option<Self> {
        let own = |line: &str| {
            let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
            let file = Path::new(file);
            let inside = file.strip_prefix(dir).or_else(|_| file.strip_prefix("/1")).ok()?;
            let is_own = !inside.starts_with("berth") && !inside.starts_with("build");
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            is_own.then(|| format!("{}:{number}", inside.display()))
        };
        let (at, place) = lines.iter().enumerate().rev().find_map(|(at, line)| Some((at, own(line)?)))?;
        let after = lines.get(at + 1..)?;
        let source = after.first().filter(|line| line.starts_with("    ")).map_or("", |line| line.trim());
        let message = after.iter().find(|line| is_exception(line))?;
        Some(Self { place, source: source.to_owned(), message: (*message).to_owned() })
    }

    /// Finds `plugin.ts:12:20: ERROR: …`, and the line of the source that esbuild shows.
    fn of_esbuild(lines: &[&str]) -> Option<Self> {
        let (place, message) = lines.iter().find_map(|line| line.split_once(": ERROR: "))?;
        let number = place.split(':').nth(1)?;
        let shown = lines.iter().find_map(|line| line.trim().strip_prefix(number)?.trim_start().strip_prefix('│'));
        let source = shown.unwrap_or_default().trim().to_owned();
        Some(Self { place: place.to_owned(), source, message: message.to_owned() })
    }
}

/// Whether the line begins like `SyntaxError: …`.
fn is_exception(line: &str) -> bool {
    let name = line.split_once(':').map_or(line, |(name, _)| name);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    name.chars().all(is_name) && (name.ends_with("Error") || name.ends_with("Exception"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_traceback_the_own_line_is_left() {
        let traceback = "Traceback (most recent call last):
  File \"/tools/bin/componentize-py\", line 8, in <module>
    sys.exit(script())
AssertionError: Traceback (most recent call last):
  File \"/home/me/zone/build/entry/berth_entry.py\", line 1, in <module>
    import plugin
  File \"/home/me/zone/plugin.py\", line 12
    def filter(self, pod, node
              ^
SyntaxError: '(' was never closed

Caused by:
    0: error while executing at wasm backtrace:
           0: 0x4d9e - libcomponentize_py_runtime.so!_start";
        let error = SourceError::find(traceback, Path::new("/home/me/zone")).expect("an error");
        assert_eq!(
            error.to_string(),
            "plugin.py:12\n    def filter(self, pod, node\nSyntaxError: '(' was never closed"
        );
        assert_eq!(SourceError::find(traceback, Path::new("/home/me/other")), None);
    }

    #[test]
    fn of_a_traceback_within_the_component_the_own_line_is_left() {
        let traceback = "Traceback (most recent call last):
  File \"/tools/bin/componentize-py\", line 8, in <module>
    sys.exit(script())
             ^^^^^^^^
AssertionError: Traceback (most recent call last):
  File \"/0/berth_entry.py\", line 1, in <module>
    import plugin
  File \"/1/plugin.py\", line 11, in <module>
    class Quota:
    ...<3 lines>...
            self.give_back(pod)
  File \"/1/plugin.py\", line 15, in Quota
    events_to_register = [berth.on(\"Pod\", \"deleted\")]
                          ~~~~~~~~^^^^^^^^^^^^^^^^^^
  File \"/2/berth/answers.py\", line 90, in on
    raise ValueError(message)
ValueError: 'deleted' is not an action

Caused by:
    ValueError: 'deleted' is not an action";
        let error = SourceError::find(traceback, Path::new("/home/me/quota")).expect("an error");
        let shown = "plugin.py:15\n    events_to_register = [berth.on(\"Pod\", \"deleted\")]\nValueError: 'deleted' is not an action";
        assert_eq!(error.to_string(), shown);
    }

    #[test]
    fn of_a_bundlers_error_the_own_line_is_left() {
        let told = "✘ [ERROR] Expected \")\" but found \"{\"

    plugin.ts:12:19:
      12 │   filter(pod, node {
         │                    ^
         ╵                    )

/tools/node_modules/esbuild/lib/main.js:1477
  let error = new Error(text);
Error: Build failed with 1 error:
plugin.ts:12:19: ERROR: Expected \")\" but found \"{\"
    at failureErrorWithLog (/tools/node_modules/esbuild/lib/main.js:1477:15)";
        let error = SourceError::find(told, Path::new("/home/me/zone")).expect("an error");
        assert_eq!(error.to_string(), "plugin.ts:12:19\n    filter(pod, node {\nExpected \")\" but found \"{\"");
    }

    #[test]
    fn what_is_said_from_an_error_on_is_held_back() {
        let mut output = Output::default();
        output.show("installing\nTraceback (most recent call last):\nmore\n".as_bytes()).expect("memory");
        assert_eq!(output.held_back, b"Traceback (most recent call last):\nmore\n");
        let mut output = Output::default();
        output.show("a Traceback (most recent call last) in a line\nTrace".as_bytes()).expect("memory");
        assert_eq!(output.held_back, b"");
    }
}
