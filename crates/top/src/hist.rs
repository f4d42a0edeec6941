//! `larder hist`: live latency histogram, hits and misses apart.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal, Write as _},
    process::ExitCode,
    time::Duration,
};

use larder_metrics::{Histogram, Interval};
use ratatui::{
    Frame,
    crossterm::event::KeyCode,
    text::{Line, Span},
    widgets::Paragraph,
};
use tokio::{sync::mpsc, time::sleep};

use crate::{
    HistArgs,
    address::Address,
    chart, exit, log, poll,
    screen::{Input, Palette, Screen},
    sse::Events,
    text::{self, fit},
};

/// Most seconds kept and shown together; also the limit of `--window`.
const LONGEST: usize = 600;
/// Pause before reconnecting.
const PAUSE: Duration = Duration::from_secs(1);
/// Columns and lines printed by `--once`.
const PRINTED: (usize, usize) = (80, 18);

/// Histograms of the last seconds, oldest first.
#[derive(Default)]
struct RecentSeconds(VecDeque<Interval>);

impl RecentSeconds {
    fn push(&mut self, second: Interval) {
        if self.0.len() == LONGEST {
            self.0.pop_front();
        }
        self.0.push_back(second);
    }

    fn sum(&self, window: usize) -> (Histogram, Histogram) {
        let (mut hit, mut miss) = (Histogram::default(), Histogram::default());
        for second in self.0.iter().rev().take(window) {
            hit.merge(&second.hit);
            miss.merge(&second.miss);
        }
        (hit, miss)
    }
}

/// The next second of the stream.
async fn second(events: &mut Events) -> Result<Interval, String> {
    loop {
        let event = events.next().await?;
        if let Ok(second) = text::from_json(event.data.as_bytes()) {
            return Ok(second);
        }
    }
}

/// Runs `larder hist`.
pub(crate) async fn run(args: &HistArgs, server: &Address) -> ExitCode {
    let token = match poll::token(args.token_file.as_deref()) {
        Ok(token) => server.token.clone().or(token),
        Err(message) => return exit::usage("hist", &message),
    };
    if !args.once && !io::stdout().is_terminal() {
        return exit::usage("hist", "standard output is not a terminal: use --once");
    }
    let events = match log::open(server, "/api/v1/hist", token.as_deref()).await {
        Ok(events) => events,
        Err((code, message)) => {
            eprintln!("larder hist: {message}");
            return ExitCode::from(code);
        }
    };
    let ended =
        if args.once { once(args, events).await } else { live(args, server, token, events).await };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("larder hist: {why}");
            ExitCode::from(exit::UNREACHABLE)
        }
    }
}

async fn once(args: &HistArgs, mut events: Events) -> Result<u8, String> {
    let mut seconds = RecentSeconds::default();
    for _ in 0..args.window {
        seconds.push(second(&mut events).await?);
    }
    let (hit, miss) = seconds.sum(usize::from(args.window));
    let mut text = chart::draw(&hit, &miss, PRINTED.0, PRINTED.1).join("\n");
    text.push('\n');
    text.push_str(&quantiles(&hit, &miss));
    text.push('\n');
    // If standard output is closed, nothing is left to do.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    Ok(0)
}

/// `hits: 50% 80µs, 99% 1.20ms   misses: ...`
fn quantiles(hit: &Histogram, miss: &Histogram) -> String {
    let one = |name: &str, histogram: &Histogram| {
        let shown = |per_mille| text::quantile(histogram, per_mille);
        format!("{name} 50% {} 90% {} 99% {}", shown(500), shown(900), shown(990))
    };
    format!("{}   {}", one("hits:", hit), one("misses:", miss))
}

/// State of the screen.
struct View {
    server: String,
    palette: Palette,
    window: usize,
    frozen: bool,
    trouble: Option<String>,
    shown: (Histogram, Histogram),
}

impl View {
    fn draw(&self, frame: &mut Frame<'_>) {
        let (width, height) = (usize::from(frame.area().width), usize::from(frame.area().height));
        let state = match (&self.trouble, self.frozen) {
            (Some(why), _) => format!("  DOWN: {why}"),
            (None, true) => "  frozen".to_owned(),
            (None, false) => String::new(),
        };
        let title = format!("larder hist  {}  last {} s{state}", self.server, self.window);
        let style = if self.trouble.is_some() { self.palette.alarm() } else { self.palette.head() };
        let (hit, miss) = &self.shown;
        let mut lines = vec![Line::styled(fit(&title, width), style)];
        lines.extend(
            chart::draw(hit, miss, width, height.saturating_sub(3))
                .iter()
                .map(|line| self.chart_line(line)),
        );
        lines.push(Line::raw(fit(&quantiles(hit, miss), width)));
        frame.render_widget(Paragraph::new(lines), frame.area());
    }

    fn chart_line(&self, line: &str) -> Line<'static> {
        chart_line(line, self.palette)
    }
}

/// A line of a chart, with hits and misses in their colours.
pub(crate) fn chart_line(line: &str, palette: Palette) -> Line<'static> {
    let style = |c| match c {
        '|' => palette.hit(),
        '#' => palette.miss(),
        _ => ratatui::style::Style::new(),
    };
    Line::from(line.chars().map(|c| Span::styled(c.to_string(), style(c))).collect::<Vec<_>>())
}

/// Follows the stream and reconnects when it breaks.
async fn follow(
    server: Address,
    token: Option<String>,
    mut events: Events,
    news: mpsc::Sender<Result<Interval, String>>,
) {
    loop {
        let mut next = second(&mut events).await;
        while next.is_err() {
            if news.send(next).await.is_err() {
                return;
            }
            sleep(PAUSE).await;
            next = match log::open(&server, "/api/v1/hist", token.as_deref()).await {
                Ok(again) => {
                    events = again;
                    second(&mut events).await
                }
                Err((_, why)) => Err(why),
            };
        }
        if news.send(next).await.is_err() {
            return;
        }
    }
}

async fn live(
    args: &HistArgs,
    server: &Address,
    token: Option<String>,
    events: Events,
) -> Result<u8, String> {
    let (send, mut news) = mpsc::channel(16);
    tokio::spawn(follow(server.clone(), token, events, send));
    let mut screen = Screen::enter().map_err(|error| error.to_string())?;
    let mut seconds = RecentSeconds::default();
    let mut view = View {
        server: server.endpoints.first().map(ToString::to_string).unwrap_or_default(),
        palette: Palette::of_environment(),
        window: usize::from(args.window),
        frozen: false,
        trouble: None,
        shown: Default::default(),
    };
    loop {
        screen.draw(|frame| view.draw(frame)).map_err(|error| error.to_string())?;
        tokio::select! {
            input = screen.next() => match input {
                Input::End(code) => return Ok(code),
                Input::Resize => screen.clear().map_err(|error| error.to_string())?,
                Input::Key(KeyCode::Char('q') | KeyCode::Esc) => return Ok(0),
                Input::Key(KeyCode::Char(' ')) => view.frozen = !view.frozen,
                Input::Key(KeyCode::Char('<') | KeyCode::Left) => {
                    view.window = (view.window / 2).max(1);
                }
                Input::Key(KeyCode::Char('>') | KeyCode::Right) => {
                    view.window = (view.window * 2).min(LONGEST);
                }
                Input::Key(_) => {}
            },
            Some(new) = news.recv() => match new {
                Ok(second) => {
                    seconds.push(second);
                    view.trouble = None;
                }
                Err(why) => view.trouble = Some(why),
            },
        }
        if !view.frozen {
            view.shown = seconds.sum(view.window);
        }
    }
}
