//! The table and the help on the screen.

use ratatui::{
    Frame,
    text::{Line, Span},
    widgets::Paragraph,
};

use crate::{
    app::{App, Page},
    drill,
    rates::State,
    table::{Cell, Column, Figures, Row, Table, cells, columns},
    text::{self, fit},
};

const HELP: &[&str] = &[
    "Keys",
    "  < >  , .  arrows  sort by the column beside; beyond the last: as given",
    "  r                 reverse the order",
    "  up down  k j      choose a server; scroll",
    "  Enter             look at one server; Esc: the table",
    "  l                 since the servers' start / last interval",
    "  c                 columns for commands / for all",
    "  space             freeze; what goes on is not lost",
    "  ?                 this help",
    "  q                 quit",
    "",
    "Columns",
    "  USAGE   memory used of what is allowed; bytes where nothing limits it",
    "  HIT %   lookups answered from memory, in this interval; - nobody asked",
    "  CONN    open connections          TIME    how long it took to answer us",
    "  EVICT/s thrown out for want of memory, a second",
    "  GETS/s  lookups: HTTP requests that may be answered from memory, and keys",
    "  SETS/s  pages and objects stored   READ/s WRITE/s  bytes in and out",
];

/// Draws the current page.
pub(crate) fn draw(app: &App, frame: &mut Frame<'_>) {
    let (width, height) = (usize::from(frame.area().width), usize::from(frame.area().height));
    let lines = match app.page {
        Page::Table => table(app, width, height),
        Page::Help => HELP.iter().map(|line| Line::raw(fit(line, width))).collect(),
        Page::Drill(server) => {
            let mut lines = vec![title(app, &app.table(), width)];
            let all = drill::lines(app, server, width);
            let room = height.saturating_sub(2);
            let scroll = app.scroll.min(all.len().saturating_sub(room));
            lines.extend(all.into_iter().skip(scroll).take(room));
            lines.resize(height.saturating_sub(1), Line::raw(""));
            lines.push(Line::styled(
                fit("Esc table  up/down scroll  l since start  space freeze  q quit", width),
                app.palette.quiet(),
            ));
            lines
        }
    };
    frame.render_widget(Paragraph::new(lines), frame.area());
}

fn title(app: &App, table: &Table, width: usize) -> Line<'static> {
    let waiting = table.rows.iter().filter(|row| row.state == State::Waiting).count();
    let up = table.rows.len() - table.down - waiting;
    let mut title = format!("larder top  {up} up");
    if table.down > 0 {
        title.push_str(&format!(", {} DOWN", table.down));
    }
    let clock = text::clock(app.seen_ms);
    let clock = clock.split('.').next().unwrap_or_default();
    let rates =
        if app.lifetime { "since start".to_owned() } else { format!("every {}s", app.interval) };
    title.push_str(&format!("  {clock} UTC  {rates}"));
    if app.frozen.is_some() {
        title.push_str("  FROZEN");
    }
    if let Some(by) = app.order.by {
        title.push_str(&format!("  by {}", by.head()));
    }
    if app.order.reverse {
        title.push_str(" reversed");
    }
    Line::styled(
        fit(&title, width),
        if table.down > 0 { app.palette.alarm() } else { app.palette.head() },
    )
}

fn table(app: &App, width: usize, height: usize) -> Vec<Line<'static>> {
    let table = app.table();
    let instance = table.instance_width().min(width / 2).max(10);
    let columns = columns(app.commands, width, instance);
    let layout = Layout { app, columns, instance, width };
    let mut lines = vec![title(app, &table, width), layout.head()];
    // Title, head, two summary rows and the key line do not scroll.
    let room = height.saturating_sub(5).max(1);
    let selected = table.rows.iter().position(|row| row.index == app.selected).unwrap_or(0);
    let first = (selected + 1).saturating_sub(room);
    lines.extend(table.rows.iter().skip(first).take(room).map(|row| layout.row(row)));
    lines.push(layout.sum("AVERAGE", &table.average));
    lines.push(layout.sum("TOTAL", &table.total));
    lines.resize(height.saturating_sub(1).max(lines.len()), Line::raw(""));
    let keys = "q quit  ? help  < > sort  r reverse  space freeze  l since start  Enter look";
    lines.push(Line::styled(fit(keys, width), app.palette.quiet()));
    lines
}

struct Layout<'a> {
    app: &'a App,
    columns: Vec<Column>,
    instance: usize,
    width: usize,
}

impl Layout<'_> {
    fn padded(&self, column: Column, text: &str) -> String {
        match column {
            Column::Instance => left(text, self.instance),
            Column::Server => fit(text, column.width()),
            _ => format!("{:>width$}", fit(text, column.width()), width = column.width()),
        }
    }

    fn line(&self, spans: Vec<Span<'static>>) -> Line<'static> {
        let mut parts = Vec::with_capacity(spans.len() * 2);
        for (n, span) in spans.into_iter().enumerate() {
            if n > 0 {
                parts.push(Span::raw(" "));
            }
            parts.push(span);
        }
        Line::from(parts)
    }

    fn head(&self) -> Line<'static> {
        let palette = self.app.palette;
        let head = |column: &Column| {
            let sorted = self.app.order.by == Some(*column);
            Span::styled(
                self.padded(*column, column.head()),
                if sorted { palette.sorted() } else { palette.head() },
            )
        };
        self.line(self.columns.iter().map(head).collect())
    }

    fn row(&self, row: &Row) -> Line<'static> {
        let palette = self.app.palette;
        let line = match (&row.figures, &row.state) {
            (Some(figures), _) => self.figures(&row.instance, &row.server, figures),
            (None, State::Down(why)) => {
                let room = self.width.saturating_sub(self.instance + 1);
                self.line(vec![
                    Span::styled(left(&row.instance, self.instance), palette.alarm()),
                    Span::styled(fit(&format!("DOWN: {why}"), room), palette.alarm()),
                ])
            }
            (None, _) => self.line(vec![
                Span::raw(left(&row.instance, self.instance)),
                Span::styled("...", palette.quiet()),
            ]),
        };
        if row.index == self.app.selected { line.patch_style(palette.selected()) } else { line }
    }

    fn sum(&self, name: &str, figures: &Figures) -> Line<'static> {
        self.figures(name, "", figures).patch_style(self.app.palette.sum())
    }

    fn figures(&self, instance: &str, server: &str, figures: &Figures) -> Line<'static> {
        let alarms = &self.app.alarms;
        let cells = cells(figures, &self.columns, alarms);
        let span = |(column, cell): (&Column, Cell)| {
            let text = match column {
                Column::Instance => instance,
                Column::Server => server,
                _ => &cell.text,
            };
            let text = self.padded(*column, text);
            if cell.alarm { Span::styled(text, self.app.palette.alarm()) } else { Span::raw(text) }
        };
        self.line(self.columns.iter().zip(cells).map(span).collect())
    }
}

fn left(text: &str, width: usize) -> String {
    format!("{:width$}", fit(text, width))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use clap::Args;
    use ratatui::{Terminal, backend::TestBackend, crossterm::event::KeyCode};

    use super::*;
    use crate::{TopArgs, rates::tests::sample_at, screen::Palette};

    fn app(words: &[&str]) -> App {
        let mut app = app_of(words, &["127.0.0.1:8081", "127.0.0.1:11211", "10.0.0.3:11211"]);
        let start = Instant::now();
        app.servers[1].1.take(Ok(sample_at(start, 0, "1", 0, 0)));
        app.servers[1].1.take(Ok(sample_at(start, 2, "1", 600, 600)));
        app.servers[2].1.take(Err("connection refused".to_owned()));
        app
    }

    /// The first server is up.
    fn app_of(words: &[&str], names: &[&str]) -> App {
        use clap::FromArgMatches;
        let command = TopArgs::augment_args(clap::Command::new("top"));
        let matches =
            command.try_get_matches_from([&["top"], words].concat()).expect("a command line");
        let args = TopArgs::from_arg_matches(&matches).expect("a command line");
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut app = App::new(&args, names, Palette { colours: false });
        let start = Instant::now();
        app.servers[0].1.take(Ok(sample_at(start, 0, "1", 0, 0)));
        app.servers[0].1.take(Ok(sample_at(start, 2, "1", 200, 50)));
        app
    }

    fn screen(app: &App, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(app, frame)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..height).map(line).map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn eighty_columns_show_all_of_it() {
        let lines = screen(&app(&[]), 80, 24);
        assert!(lines[0].starts_with("larder top  2 up, 1 DOWN"), "{lines:#?}");
        assert_eq!(
            lines[1],
            "INSTANCE        USAGE HIT %  CONN   TIME EVICT/s GETS/s SETS/s READ/s WRITE/s"
        );
        assert_eq!(
            lines[2],
            "127.0.0.1:8081  20.0%  25.0     0 1.00ms       0    100      0      0       0"
        );
        assert_eq!(lines[4], "10.0.0.3:11211  DOWN: connection refused");
        assert_eq!(
            lines[6],
            "TOTAL           40.0%  81.2     0      -       0    400      0      0       0"
        );
        assert!(lines[23].starts_with("q quit  ? help"));
    }

    #[test]
    fn any_size_is_drawn() {
        let mut app = app(&[]);
        for page in [Page::Table, Page::Help, Page::Drill(0), Page::Drill(2), Page::Drill(99)] {
            app.page = page;
            for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 100)] {
                screen(&app, width, height);
            }
        }
    }

    #[test]
    fn keys_sort_freeze_and_lead_elsewhere() {
        let mut app = app(&["--sort", "gets"]);
        assert!(screen(&app, 80, 24)[2].starts_with("127.0.0.1:11211"));
        assert!(app.key(KeyCode::Char('r')));
        assert!(screen(&app, 80, 24)[2].starts_with("127.0.0.1:8081"));
        app.key(KeyCode::Char('>'));
        assert!(screen(&app, 80, 24)[0].contains("by SETS/s reversed"));
        app.key(KeyCode::Char(' '));
        app.servers[0].1.take(Err("gone".to_owned()));
        let frozen = screen(&app, 80, 24);
        assert!(frozen[0].contains("FROZEN") && !frozen.iter().any(|line| line.contains("gone")));
        app.key(KeyCode::Char(' '));
        assert!(screen(&app, 80, 24).iter().any(|line| line.contains("DOWN: gone")));
        app.key(KeyCode::Char('?'));
        assert_eq!(screen(&app, 80, 24)[0], "Keys");
        app.key(KeyCode::Esc);
        app.selected = 1;
        app.key(KeyCode::Enter);
        assert_eq!(app.page, Page::Drill(1));
        assert!(screen(&app, 80, 24).iter().any(|line| line.contains("get_hits")));
        app.key(KeyCode::Esc);
        assert_eq!(app.page, Page::Table);
        assert!(!app.key(KeyCode::Char('q')));
    }

    #[test]
    fn one_server_is_shown_in_full_at_once() {
        let mut app = app_of(&[], &["127.0.0.1:8081"]);
        assert_eq!(app.page, Page::Drill(0));
        let lines = screen(&app, 80, 24);
        assert!(lines[1].starts_with("127.0.0.1:8081") && lines[0].contains("1 up"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("get_hits")), "{lines:#?}");
        app.key(KeyCode::Esc);
        assert!(screen(&app, 80, 24).iter().any(|line| line.starts_with("TOTAL")));
        app.key(KeyCode::Enter);
        assert_eq!(app.page, Page::Drill(0));
    }

    #[test]
    fn sorting_goes_round() {
        let mut app = app(&[]);
        let mut columns = Vec::new();
        for _ in 0..11 {
            columns.push(app.order.by);
            app.key(KeyCode::Right);
        }
        assert_eq!((app.order.by, columns.iter().flatten().count()), (None, 10));
        app.key(KeyCode::Left);
        assert_eq!(app.order.by, Some(Column::Write));
    }
}
