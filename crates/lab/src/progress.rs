//! Progress of long work, with the time that is left: a line on standard error that is overwritten,
//! and nothing at all where that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two looks at the clock while nothing is done.
const TICK: Duration = Duration::from_millis(500);

/// The line. It is removed when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `title`: of the work; `steps`: parts of about equal length.
    pub(crate) fn new(title: &str, steps: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        if !bar.is_hidden() {
            bar.set_style(style());
            bar.set_message(title.to_owned());
            bar.enable_steady_tick(TICK);
        }
        Progress(bar)
    }

    /// One that shows nothing.
    pub(crate) fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    /// So many more parts are done.
    pub(crate) fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Prints a line of its own, above.
    pub(crate) fn say(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The time left is known once a part is done.
fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg}: {human_pos} of {human_len}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use indicatif::TermLike;
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    /// A terminal that keeps what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Written(Arc<Mutex<String>>);

    impl TermLike for Written {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("no panic").push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn parts_and_the_time_left_are_shown() {
        let terminal = Written::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let bar = ProgressBar::with_draw_target(Some(2000), target).with_style(style());
        bar.set_message("simulating");
        bar.inc(1000);
        bar.tick();
        let shown = terminal.0.lock().expect("no panic").clone();
        assert!(
            shown.contains("simulating: 1,000 of 2,000, ") && shown.contains(" left"),
            "{shown}"
        );
    }

    #[test]
    fn without_a_terminal_nothing_is_shown() {
        let progress = Progress::hidden();
        progress.advance(1);
        assert!(progress.0.is_hidden());
    }
}
