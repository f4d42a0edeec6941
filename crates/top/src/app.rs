//! State of `larder top`: servers, view, and the effect of keys.

use std::{process::ExitCode, time::SystemTime};

use ratatui::crossterm::event::KeyCode;
use tokio::sync::{mpsc, watch};

use crate::{
    TopArgs, exit, once,
    poll::{self, PollResult, Server},
    rates::ServerState,
    screen::{Input, Palette, Screen},
    table::{Alarms, Column, SortOrder, Table, columns},
    view,
};

/// Poll results waiting for the screen; when full, the servers' tasks wait.
const POLL_RESULTS: usize = 64;

/// The page on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Table,
    Help,
    /// Details of the server with this index.
    Drill(usize),
}

/// The state the screen is drawn from.
pub(crate) struct App {
    pub(crate) servers: Vec<(String, ServerState)>,
    /// The frozen servers, shown instead of the current ones while the view is frozen.
    pub(crate) frozen: Option<Vec<(String, ServerState)>>,
    pub(crate) palette: Palette,
    pub(crate) alarms: Alarms,
    pub(crate) order: SortOrder,
    pub(crate) lifetime: bool,
    pub(crate) commands: bool,
    pub(crate) page: Page,
    /// Index of the selected server.
    pub(crate) selected: usize,
    /// Number of lines or rows scrolled down.
    pub(crate) scroll: usize,
    /// Seconds between two polls.
    pub(crate) interval: f64,
    /// Time of the last poll result, in milliseconds since 1970.
    pub(crate) seen_ms: u64,
    /// Width of the screen, for keys that move between columns.
    pub(crate) width: usize,
}

impl App {
    /// One server is shown in full at once: a table of one row says little.
    pub(crate) fn new(args: &TopArgs, names: Vec<String>, palette: Palette) -> App {
        let page = if names.len() == 1 { Page::Drill(0) } else { Page::Table };
        App {
            servers: names.into_iter().map(|name| (name, ServerState::default())).collect(),
            frozen: None,
            palette,
            alarms: args.alarm.clone(),
            order: SortOrder { by: args.sort, reverse: false },
            lifetime: args.lifetime,
            commands: args.commands,
            page,
            selected: 0,
            scroll: 0,
            interval: args.interval.as_secs_f64(),
            seen_ms: 0,
            width: 80,
        }
    }

    /// The servers to show.
    pub(crate) fn shown(&self) -> &[(String, ServerState)] {
        self.frozen.as_deref().unwrap_or(&self.servers)
    }

    pub(crate) fn table(&self) -> Table {
        Table::of(self.shown(), self.lifetime, self.order)
    }

    /// Records the result of a poll, and the server's current name.
    pub(crate) fn take(&mut self, result: PollResult, name: String, now_ms: u64) {
        if let Some((known, watched)) = self.servers.get_mut(result.server) {
            *known = name;
            watched.take(result.outcome);
            self.seen_ms = now_ms;
        }
    }

    /// Handles a key; false ends the program.
    pub(crate) fn key(&mut self, key: KeyCode) -> bool {
        match (self.page, key) {
            (_, KeyCode::Char('q')) => return false,
            (Page::Help, _) => self.page = Page::Table,
            (_, KeyCode::Char('?' | 'h')) => self.page = Page::Help,
            (_, KeyCode::Char(' ')) => {
                self.frozen = if self.frozen.is_some() { None } else { Some(self.servers.clone()) };
            }
            (_, KeyCode::Char('l')) => self.lifetime = !self.lifetime,
            (
                Page::Drill(_),
                KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left,
            ) => {
                self.page = Page::Table;
                self.scroll = 0;
            }
            (Page::Drill(_), key) => self.scroll_by(key),
            (Page::Table, KeyCode::Char('c')) => {
                self.commands = !self.commands;
                self.order.by = None;
            }
            (Page::Table, KeyCode::Char('<' | ',') | KeyCode::Left) => self.sort_beside(false),
            (Page::Table, KeyCode::Char('>' | '.') | KeyCode::Right) => self.sort_beside(true),
            (Page::Table, KeyCode::Char('r')) => self.order.reverse = !self.order.reverse,
            (Page::Table, KeyCode::Enter) => {
                self.page = Page::Drill(self.selected);
                self.scroll = 0;
            }
            (Page::Table, KeyCode::Down | KeyCode::Char('j')) => self.select_beside(1),
            (Page::Table, KeyCode::Up | KeyCode::Char('k')) => self.select_beside(-1),
            (Page::Table, _) => {}
        }
        true
    }

    fn scroll_by(&mut self, key: KeyCode) {
        self.scroll = match key {
            KeyCode::Down | KeyCode::Char('j') => self.scroll + 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll + 10,
            KeyCode::PageUp => self.scroll.saturating_sub(10),
            KeyCode::Home => 0,
            _ => self.scroll,
        };
    }

    /// Sorts by the next column to the side; beyond the first and last is the order of the command
    /// line.
    fn sort_beside(&mut self, right: bool) {
        let columns = columns(self.commands, self.width, self.table().instance_width());
        let columns: Vec<Column> =
            columns.into_iter().filter(|column| *column != Column::Server).collect();
        let at = self.order.by.and_then(|by| columns.iter().position(|column| *column == by));
        let next = match (at, right) {
            (None, true) => Some(0),
            (None, false) => columns.len().checked_sub(1),
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
        };
        self.order.by = next.and_then(|at| columns.get(at).copied());
    }

    fn select_beside(&mut self, step: isize) {
        let rows = self.table().rows;
        let at = rows.iter().position(|row| row.index == self.selected).unwrap_or(0);
        let next = at.saturating_add_signed(step).min(rows.len().saturating_sub(1));
        if let Some(row) = rows.get(next) {
            self.selected = row.index;
        }
    }
}

/// Runs `larder top`.
pub(crate) async fn run(args: &TopArgs) -> ExitCode {
    let servers = poll::token(args.token_file.as_deref()).and_then(|token| {
        let servers = poll::servers(&args.servers, args.servers_file.as_deref(), token.is_some())?;
        let server = |address| Server::new(address, token.clone(), args.timeout);
        Ok(servers.into_iter().map(server).collect::<Vec<_>>())
    });
    let servers = match servers {
        Ok(servers) => servers,
        Err(message) => return exit::usage("top", &message),
    };
    if args.once {
        return once::run(args, servers).await;
    }
    let screen = match Screen::enter() {
        Ok(screen) => screen,
        Err(error) => return exit::usage("top", &error.to_string()),
    };
    match live(args, servers, screen).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("larder top: {error}");
            ExitCode::from(exit::SOME_DOWN)
        }
    }
}

async fn live(args: &TopArgs, servers: Vec<Server>, mut screen: Screen) -> std::io::Result<u8> {
    let mut app =
        App::new(args, servers.iter().map(Server::name).collect(), Palette::of_environment());
    let closest = |app: &App| if let Page::Drill(server) = app.page { Some(server) } else { None };
    let (closer, wanted) = watch::channel(closest(&app));
    let (send, mut results) = mpsc::channel(POLL_RESULTS);
    for (index, server) in servers.into_iter().enumerate() {
        tokio::spawn(poll::watch(index, server, args.interval, wanted.clone(), send.clone()));
    }
    loop {
        screen.draw(|frame| {
            app.width = usize::from(frame.area().width);
            view::draw(&app, frame);
        })?;
        tokio::select! {
            input = screen.next() => match input {
                Input::End(code) => return Ok(code),
                Input::Resize => screen.clear()?,
                Input::Key(key) => {
                    if !app.key(key) {
                        return Ok(0);
                    }
                    let page = closest(&app);
                    closer.send_if_modified(|wanted| std::mem::replace(wanted, page) != page);
                }
            },
            Some((result, name)) = results.recv() => app.take(result, name, now_ms()),
        }
        // Servers that answer together are drawn together.
        while let Ok((result, name)) = results.try_recv() {
            app.take(result, name, now_ms());
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
