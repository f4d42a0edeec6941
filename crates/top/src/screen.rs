//! The terminal: entered and always restored.

use std::{
    io::{self, IsTerminal, Stdout, stdout},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
    layout::Rect,
    style::{Color, Modifier, Style},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// Keys read ahead; the reading thread waits when there are that many.
const KEYS_AHEAD: usize = 64;
/// Interval at which the reading thread checks whether to end.
const KEY_PATIENCE: Duration = Duration::from_millis(100);

/// Set by the panic hook: the terminal is restored and nothing may be drawn any more.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The next input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Key(KeyCode),
    /// The terminal was resized.
    Resize,
    /// End with this exit code.
    End(u8),
}

/// The terminal in full-screen mode. Restored when dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    keys: mpsc::Receiver<Event>,
    signals: [(Signal, u8); 3],
}

impl Screen {
    /// Enters full-screen mode. Must be called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// There is no terminal, or it fails.
    pub(crate) fn enter() -> io::Result<Screen> {
        if !stdout().is_terminal() {
            return Err(io::Error::other("standard output is not a terminal: use --once"));
        }
        restore_on_panic();
        let signals = [
            (signal(SignalKind::interrupt())?, 130),
            (signal(SignalKind::terminate())?, 143),
            (signal(SignalKind::hangup())?, 129),
        ];
        enable_raw_mode()?;
        let terminal = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let terminal = terminal.inspect_err(|_| restore())?;
        let (send, keys) = mpsc::channel(KEYS_AHEAD);
        let reader =
            std::thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&send));
        reader.map(drop).inspect_err(|_| restore())?;
        Ok(Screen { terminal, keys, signals })
    }

    /// Draws a frame with `view`.
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub(crate) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Ordering::Relaxed) {
            return Err(io::Error::other("ended by a fault of its own"));
        }
        self.terminal.draw(view).map(drop)
    }

    /// Waits for a key, a resize or a signal. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Input {
        let [(interrupt, a), (terminate, b), (hangup, c)] = &mut self.signals;
        loop {
            let event = tokio::select! {
                _ = interrupt.recv() => return Input::End(*a),
                _ = terminate.recv() => return Input::End(*b),
                _ = hangup.recv() => return Input::End(*c),
                event = self.keys.recv() => event,
            };
            match event {
                // The reading thread ends when the terminal is gone.
                None => return Input::End(*c),
                Some(Event::Resize(..)) => return Input::Resize,
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    return match key.code {
                        KeyCode::Char('c' | 'd') if control => Input::End(0),
                        KeyCode::Char('l') if control => Input::Resize,
                        _ if control => continue,
                        code => Input::Key(code),
                    };
                }
                Some(_) => {}
            }
        }
    }

    /// Redraws everything, after a resize or when others wrote to the terminal. (`Terminal::clear`
    /// would query the cursor position, and the thread that reads keys could take the answer.)
    ///
    /// # Errors
    ///
    /// The terminal is gone.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn read_keys(send: &mpsc::Sender<Event>) {
    while !send.is_closed() {
        match event::poll(KEY_PATIENCE)
            .and_then(|ready| if ready { event::read().map(Some) } else { Ok(None) })
        {
            Ok(None) => {}
            Ok(Some(event)) => {
                if send.blocking_send(event).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Restores the terminal. Errors are ignored: they mean it is gone.
fn restore() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Restores the terminal before a panic's message is printed.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !PANICKED.swap(true, Ordering::Relaxed) {
                restore();
            }
            others(panic);
        }));
    });
}

/// Styles, with or without colours (NO_COLOR, see no-color.org).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) colours: bool,
}

impl Palette {
    /// The palette selected by the environment.
    pub(crate) fn of_environment() -> Palette {
        Palette { colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn alarm(self) -> Style {
        match self.colours {
            true => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
            false => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    pub(crate) fn head(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The column that is sorted by.
    pub(crate) fn sorted(self) -> Style {
        self.head().add_modifier(Modifier::UNDERLINED)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn sum(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn hit(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(crate) fn miss(self) -> Style {
        self.coloured(Color::Yellow)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    use super::*;

    /// Set for the process in which [`a_panic_gives_the_terminal_back`] causes a panic.
    const PANIC: &str = "LARDER_TEST_PANIC_IN_A_TERMINAL";

    /// Does nothing except in the process that the other test starts.
    #[test]
    fn panics_in_a_terminal_when_told() {
        if std::env::var_os(PANIC).is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let mut screen = Screen::enter().expect("a terminal");
                // In a task, as polls are: the view continues and must not draw any more.
                let ended = tokio::spawn(async { panic!("the reason") }).await;
                assert!(ended.is_err() && screen.draw(|_| ()).is_err());
            });
        }
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).expect("a terminal");
        let modes = || format!("{:?}", pty.master.get_termios());
        let before = modes();
        let mut command = CommandBuilder::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "screen::tests::panics_in_a_terminal_when_told", "--nocapture"]);
        command.env(PANIC, "1");
        let mut child = pty.slave.spawn_command(command).expect("this test again");
        let mut reader = pty.master.try_clone_reader().expect("its output");
        let mut shown = String::new();
        let mut piece = [0; 4096];
        while !shown.contains("test result") {
            let n = reader.read(&mut piece).expect("output");
            assert!(n > 0, "{shown}");
            shown.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
        assert!(child.wait().expect("its end").success(), "{shown}");
        assert_eq!(modes(), before);
        let at =
            |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown:?}"));
        let (taken, given) = (at("\x1b[?1049h"), at("\x1b[?1049l"));
        assert!(
            taken < given && given < at("the reason"),
            "the message is on the terminal's own screen: {shown:?}"
        );
    }
}
