//! The only handle on standard output and standard error.
//!
//! Standard output carries the requested results and nothing else; remarks go to standard error. Styles are removed if
//! the stream gets no colour; an artefact is written byte by byte.
//!
//! A reader may close standard output early, as in `kyvtest run … | head`. Output is then discarded and the command
//! runs to its end, because its exit code must not depend on the reader.

use std::{
    borrow::Cow,
    cell::Cell,
    fmt,
    io::{self, BufWriter, IsTerminal, Write},
    rc::Rc,
};

use anstream::adapter::strip_str;

use super::{
    Exit,
    color::{self, ColorChoice},
};
use kyvtest_go_compat::diagnostic::{Diagnostic, Severity, Sources, render};

pub(super) struct Output {
    out: BufWriter<Box<dyn Write>>,
    out_color: bool,
    err: Box<dyn Write>,
    err_color: bool,
    ascii: bool,
    closed: Rc<Cell<bool>>,
}

/// A stream that discards output after its reader closed it.
struct Closable<W> {
    inner: W,
    closed: Rc<Cell<bool>>,
}

impl<W: Write> Write for Closable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed.get() {
            return Ok(bytes.len());
        }
        match self.inner.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed.set(true);
                Ok(bytes.len())
            }
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.inner.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed.set(true);
                Ok(())
            }
            result => result,
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("out_color", &self.out_color)
            .field("err_color", &self.err_color)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// The streams of this process.
    pub(super) fn new(color: ColorChoice) -> Self {
        let closed = Rc::new(Cell::new(false));
        let out = Closable {
            inner: io::stdout(),
            closed: Rc::clone(&closed),
        };
        Self {
            out: BufWriter::new(Box::new(out)),
            out_color: color.enabled(io::stdout().is_terminal()),
            err: Box::new(io::stderr()),
            err_color: color.enabled(io::stderr().is_terminal()),
            ascii: color::ascii_only(),
            closed,
        }
    }

    /// Whether the reader of standard output closed it. Commands that run indefinitely then stop.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether standard output gets colour.
    pub(super) fn is_colored(&self) -> bool {
        self.out_color
    }

    /// Standard output for an artefact that must not be changed.
    pub(super) fn artefact(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Writes human-readable text with ANSI styles to standard output.
    pub(super) fn styled(&mut self, text: &str) -> io::Result<()> {
        let text = &*self.readable(text);
        if self.out_color {
            self.out.write_all(text.as_bytes())
        } else {
            write!(self.out, "{}", strip_str(text))
        }
    }

    /// Writes human-readable text with ANSI styles to standard error. Ignores write errors: there is nowhere left to
    /// report them.
    pub(super) fn remark(&mut self, text: &str) {
        // Earlier output on standard output must come first; the last flush reports its errors.
        let _ = self.out.flush();
        let text = &*self.readable(text);
        let _ = if self.err_color {
            self.err.write_all(text.as_bytes())
        } else {
            write!(self.err, "{}", strip_str(text))
        };
    }

    /// The text in characters that the terminal can show.
    fn readable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.ascii || text.is_ascii() {
            return text.into();
        }
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '·' | '–' | '—' => plain.push('-'),
                '…' => plain.push_str("..."),
                '→' => plain.push_str("->"),
                'µ' => plain.push('u'),
                '│' => plain.push('|'),
                '─' => plain.push('-'),
                c if c.is_ascii() => plain.push(c),
                _ => plain.push('?'),
            }
        }
        plain.into()
    }

    /// A diagnostic with its excerpt, to standard error.
    pub(super) fn diagnostic(&mut self, diagnostic: &Diagnostic, sources: &Sources) {
        let text = render::full(diagnostic, sources, self.err_color);
        self.remark(&text);
    }

    /// Prints the diagnostics of files that were read; invalid input if one of them is an error.
    pub(super) fn diagnostics(&mut self, diagnostics: &[Diagnostic], sources: &Sources) -> Exit {
        let mut exit = Exit::Success;
        for diagnostic in diagnostics {
            self.diagnostic(diagnostic, sources);
            if diagnostic.severity == Severity::Error {
                exit = Exit::Input;
            }
        }
        exit
    }

    /// Prints one answer per line of a file; the lines that cannot be read are invalid input.
    pub(super) fn answers(&mut self, answers: Vec<Result<String, Diagnostic>>, sources: &Sources) -> io::Result<Exit> {
        let mut exit = Exit::Success;
        for answer in answers {
            match answer {
                Ok(answer) => writeln!(self.artefact(), "{answer}")?,
                Err(diagnostic) => {
                    exit = exit.combine(Exit::Input);
                    self.diagnostic(&diagnostic, sources);
                }
            }
        }
        Ok(exit)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
