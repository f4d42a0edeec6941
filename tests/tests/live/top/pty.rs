//! A program in a pseudo-terminal, and what is to be seen there.

use larder_tests::larder::binary;
use larder_tests::wait::{wait_for, wait_until};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

/// A running `larder` with a terminal of its own. Killed when dropped.
pub(crate) struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    /// The terminal's modes before the program began.
    modes: String,
}

impl Pty {
    /// Runs `larder` with these arguments in a terminal of this many columns and lines.
    #[track_caller]
    pub(crate) fn larder(args: &[&str], columns: u16, lines: u16) -> Pty {
        Pty::larder_with(args, columns, lines, "")
    }

    /// The same with this for NO_COLOR.
    #[track_caller]
    pub(crate) fn larder_with(args: &[&str], columns: u16, lines: u16, no_color: &str) -> Pty {
        let pair = native_pty_system().openpty(size(columns, lines)).unwrap();
        let modes = modes(&*pair.master);
        let mut command = CommandBuilder::new(binary());
        command.args(args);
        command.env("TERM", "xterm-256color");
        command.env("NO_COLOR", no_color);
        let child = pair.slave.spawn_command(command).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(lines, columns, 0)));
        let (into, mut reader) = (screen.clone(), pair.master.try_clone_reader().unwrap());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut piece) {
                into.lock().unwrap().process(&piece[..n]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        // The terminal stays open as long as the test has it: its modes are looked at after the
        // program's end.
        std::mem::forget(pair.slave);
        Pty { child, master: pair.master, writer, screen, modes }
    }

    /// The lines of the screen, without blanks at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let parser = self.screen.lock().unwrap();
        let (_, columns) = parser.screen().size();
        parser.screen().rows(0, columns).map(|line| line.trim_end().to_owned()).collect()
    }

    /// Whether anything on the screen has a colour.
    pub(crate) fn has_colours(&self) -> bool {
        let parser = self.screen.lock().unwrap();
        let (lines, columns) = parser.screen().size();
        let cells = (0..lines).flat_map(|y| (0..columns).map(move |x| (y, x)));
        let coloured = |(y, x)| {
            let cell = parser.screen().cell(y, x);
            cell.is_some_and(|c| {
                c.fgcolor() != vt100::Color::Default || c.bgcolor() != vt100::Color::Default
            })
        };
        cells.into_iter().any(coloured)
    }

    /// Waits until the screen is as it should be, and gives what `probe` makes of it.
    #[track_caller]
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
        mut probe: impl FnMut(&[String]) -> Option<T>,
    ) -> T {
        struct Show<'a>(&'a Pty);
        impl Drop for Show<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!("--- the screen:\n{}\n---", self.0.lines().join("\n"));
                }
            }
        }
        let _show = Show(self);
        wait_for(what, || probe(&self.lines()))
    }

    /// Waits for a line that has all of these words.
    #[track_caller]
    pub(crate) fn wait_line(&self, words: &[&str]) -> String {
        self.wait_for(&format!("a line with {words:?}"), |lines| {
            lines.iter().find(|line| words.iter().all(|word| line.contains(word))).cloned()
        })
    }

    /// Types.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&self, columns: u16, lines: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(lines, columns);
        self.master.resize(size(columns, lines)).unwrap();
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.child.process_id().and_then(|pid| i32::try_from(pid).ok());
        rustix::process::kill_process(
            pid.and_then(rustix::process::Pid::from_raw).unwrap(),
            signal,
        )
        .unwrap();
    }

    /// Waits for the program's end and gives its exit code; the terminal must be as it was before.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> u32 {
        let status = wait_for("the program to end", || self.child.try_wait().unwrap());
        assert_eq!(modes(&*self.master), self.modes, "the terminal's modes");
        wait_until("the screen to be given back", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        status.exit_code()
    }

    /// Whether the program has taken the terminal over: raw, and another screen than before.
    pub(crate) fn is_taken(&self) -> bool {
        modes(&*self.master) != self.modes
            && self.screen.lock().unwrap().screen().alternate_screen()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, lines: u16) -> PtySize {
    PtySize { rows: lines, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn modes(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().expect("a terminal has modes"))
}
