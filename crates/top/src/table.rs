//! Table of all servers: columns, order, alarms, averages and totals. Independent of terminals.

use std::{cmp::Ordering, str::FromStr, time::Duration};

use crate::{
    address::Kind,
    args::duration,
    rates::{ServerState, Span, State, hit_percent},
    sample::{COMMANDS, Counters},
    text,
};

/// A column, also a sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Instance,
    Usage,
    Hit,
    Conn,
    Time,
    Evict,
    Gets,
    Sets,
    Read,
    Write,
    /// One of [`COMMANDS`].
    Command(usize),
    /// Kind, name and version of the server.
    Server,
}

use Column::{Command, Conn, Evict, Gets, Hit, Instance, Read, Server, Sets, Time, Usage, Write};

/// The table's columns, and the order in which they are dropped on a narrow terminal: the last
/// first.
const COLUMNS: [Column; 11] =
    [Instance, Usage, Hit, Conn, Time, Evict, Gets, Sets, Read, Write, Server];
const KEEP: [Column; 11] =
    [Instance, Hit, Gets, Usage, Time, Conn, Sets, Evict, Write, Read, Server];

impl Column {
    pub(crate) fn head(self) -> &'static str {
        match self {
            Instance => "INSTANCE",
            Usage => "USAGE",
            Hit => "HIT %",
            Conn => "CONN",
            Time => "TIME",
            Evict => "EVICT/s",
            Gets => "GETS/s",
            Sets => "SETS/s",
            Read => "READ/s",
            Write => "WRITE/s",
            Command(kind) => COMMANDS[kind],
            Server => "SERVER",
        }
    }

    /// Width on the screen; the first and the last column take what they need.
    pub(crate) fn width(self) -> usize {
        match self {
            Instance => 15,
            Usage | Hit | Conn => 5,
            Server => 20,
            Time => 6,
            other => other.head().len().max(5),
        }
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Instance | Server)
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Column, String> {
        let wanted = |column: &Column| {
            let head = column.head().trim_end_matches(" %").trim_end_matches("/s");
            head.eq_ignore_ascii_case(text)
        };
        let known = &COLUMNS[..COLUMNS.len() - 1];
        known.iter().copied().find(wanted).ok_or_else(|| {
            "expected instance, usage, hit, conn, time, evict, gets, sets, read or write".to_owned()
        })
    }
}

/// The columns that fit into `width`, with `instance` characters for the first.
pub(crate) fn columns(commands: bool, width: usize, instance: usize) -> Vec<Column> {
    let mut columns: Vec<Column> = if commands {
        let kinds = (0..COMMANDS.len()).map(Command);
        [Instance, Hit, Time].into_iter().chain(kinds).collect()
    } else {
        COLUMNS.to_vec()
    };
    let needed = |columns: &[Column]| {
        columns.iter().map(|c| if *c == Instance { instance } else { c.width() }).sum::<usize>()
            + columns.len()
            - 1
    };
    let mut less_wanted = KEEP.iter().rev();
    while needed(&columns) > width && columns.len() > 2 {
        let next = if commands { None } else { less_wanted.next() };
        match next.and_then(|column| columns.iter().position(|c| c == column)) {
            Some(at) => drop(columns.remove(at)),
            None => drop(columns.pop()),
        }
    }
    columns
}

/// Alarm thresholds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Alarms {
    /// Percent or more.
    usage: Option<f64>,
    /// Less than this percentage.
    hit: Option<f64>,
    connections: Option<f64>,
    time: Option<Duration>,
    /// Per second or more.
    evictions: Option<f64>,
}

impl FromStr for Alarms {
    type Err = String;

    fn from_str(text: &str) -> Result<Alarms, String> {
        let mut alarms = Alarms::default();
        for item in
            text.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "none")
        {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let expected = || {
                format!(
                    "expected such as \"usage=90,hit=50,conn=1000,time=100ms,evict=1\", found \
                     {item:?}"
                )
            };
            let number = || {
                let number: Option<f64> = value.trim_end_matches('%').parse().ok();
                number.filter(|n| n.is_finite() && *n >= 0.0).ok_or_else(expected)
            };
            match name {
                "usage" => alarms.usage = Some(number()?),
                "hit" => alarms.hit = Some(number()?),
                "conn" => alarms.connections = Some(number()?),
                "evict" => alarms.evictions = Some(number()?),
                "time" => alarms.time = Some(duration(value).map_err(|_| expected())?),
                _ => return Err(expected()),
            }
        }
        Ok(alarms)
    }
}

/// A cell: text and style.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) alarm: bool,
}

/// Figures of a row. `None` is shown as a dash.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// In bytes.
    pub(crate) used: f64,
    pub(crate) budget: Option<f64>,
    pub(crate) hit_percent: Option<f64>,
    pub(crate) connections: f64,
    pub(crate) time: Option<Duration>,
    /// Rates per second.
    pub(crate) rates: Option<Rates>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) evictions: f64,
    pub(crate) gets: f64,
    pub(crate) hits: f64,
    pub(crate) sets: f64,
    pub(crate) read: f64,
    pub(crate) written: f64,
    pub(crate) commands: [f64; COMMANDS.len()],
}

impl Rates {
    pub(crate) fn of(span: &Span) -> Rates {
        let Counters { gets, hits, sets, evictions, read, written } = span.counters;
        let rate = |n| span.rate(n);
        Rates {
            evictions: rate(evictions),
            gets: rate(gets),
            hits: rate(hits),
            sets: rate(sets),
            read: rate(read),
            written: rate(written),
            commands: span.commands.map(rate),
        }
    }

    fn combine(self, other: Rates, f: impl Fn(f64, f64) -> f64) -> Rates {
        let mut commands = self.commands;
        for (kind, rate) in commands.iter_mut().enumerate() {
            *rate = f(*rate, other.commands[kind]);
        }
        Rates {
            evictions: f(self.evictions, other.evictions),
            gets: f(self.gets, other.gets),
            hits: f(self.hits, other.hits),
            sets: f(self.sets, other.sets),
            read: f(self.read, other.read),
            written: f(self.written, other.written),
            commands,
        }
    }
}

impl Figures {
    fn of(watched: &ServerState, lifetime: bool) -> Option<Figures> {
        let sample = watched.up()?;
        let span = watched.span(lifetime);
        Some(Figures {
            used: sample.used as f64,
            budget: sample.budget.map(|budget| budget as f64),
            hit_percent: span.and_then(|span| span.hit_percent()),
            connections: sample.connections as f64,
            time: watched.took(),
            rates: span.as_ref().map(Rates::of),
        })
    }

    pub(crate) fn usage_percent(&self) -> Option<f64> {
        self.budget.map(|budget| self.used * 100.0 / budget)
    }

    /// The sort key; unknown values sort lowest.
    fn value(&self, column: Column) -> f64 {
        let rates = self.rates;
        let rate = |f: fn(Rates) -> f64| rates.map(f);
        let value = match column {
            Instance | Server => None,
            Usage => Some(self.usage_percent().unwrap_or(0.0)),
            Hit => self.hit_percent,
            Conn => Some(self.connections),
            Time => self.time.map(|time| time.as_secs_f64()),
            Evict => rate(|r| r.evictions),
            Gets => rate(|r| r.gets),
            Sets => rate(|r| r.sets),
            Read => rate(|r| r.read),
            Write => rate(|r| r.written),
            Command(kind) => rates.map(|r| r.commands[kind]),
        };
        value.unwrap_or(-1.0)
    }

    pub(crate) fn cell(&self, column: Column, alarms: &Alarms) -> Cell {
        let at_least = |value: Option<f64>, limit: Option<f64>| match (value, limit) {
            (Some(value), Some(limit)) => value >= limit,
            _ => false,
        };
        let rates = self.rates;
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let rate =
            |f: fn(Rates) -> f64, show: fn(f64) -> String| shown(rates.map(|rates| show(f(rates))));
        let (text, alarm) = match column {
            Instance | Server => (String::new(), false),
            Usage => match self.usage_percent() {
                Some(percent) => (text::percent(percent), at_least(Some(percent), alarms.usage)),
                None => (text::bytes(self.used), false),
            },
            Hit => {
                let low = alarms.hit.zip(self.hit_percent).is_some_and(|(limit, hit)| hit < limit);
                (shown(self.hit_percent.map(|hit| format!("{hit:.1}"))), low)
            }
            Conn => (
                text::count(self.connections),
                at_least(Some(self.connections), alarms.connections),
            ),
            Time => {
                let slow = alarms.time.zip(self.time).is_some_and(|(limit, time)| time >= limit);
                (shown(self.time.map(text::time)), slow)
            }
            Evict => {
                let evictions = rates.map(|rates| rates.evictions);
                (rate(|r| r.evictions, text::count), at_least(evictions, alarms.evictions))
            }
            Gets => (rate(|r| r.gets, text::count), false),
            Sets => (rate(|r| r.sets, text::count), false),
            Read => (rate(|r| r.read, text::bytes), false),
            Write => (rate(|r| r.written, text::bytes), false),
            Command(kind) => (shown(rates.map(|r| text::count(r.commands[kind]))), false),
        };
        Cell { text, alarm }
    }
}

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Index in the order of the command line.
    pub(crate) index: usize,
    pub(crate) instance: String,
    /// `larder wiki1 0.1.0`.
    pub(crate) server: String,
    pub(crate) state: State,
    pub(crate) figures: Option<Figures>,
}

/// All servers, in sort order.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    /// Mean of the servers that are up; a process with several rows counts as in `total`.
    pub(crate) average: Figures,
    /// Sum of the servers that are up; usage and hit ratio are computed from the sums. Rows of one
    /// process are one server: see [`once`].
    pub(crate) total: Figures,
    pub(crate) down: usize,
}

/// Sort column and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortOrder {
    /// `None`: the order of the command line.
    pub(crate) by: Option<Column>,
    pub(crate) reverse: bool,
}

impl SortOrder {
    /// Numbers sort descending, names ascending; `reverse` inverts that. Servers that are down come
    /// last.
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let order = match (self.by, &a.figures, &b.figures) {
            (None, ..) => a.index.cmp(&b.index),
            (Some(column), ..) if column.is_text() => a.instance.cmp(&b.instance),
            (Some(_), Some(_), None) => return Ordering::Less,
            (Some(_), None, Some(_)) => return Ordering::Greater,
            (Some(column), Some(a), Some(b)) => b.value(column).total_cmp(&a.value(column)),
            (Some(_), None, None) => Ordering::Equal,
        };
        let order = if self.reverse { order.reverse() } else { order };
        order.then(a.index.cmp(&b.index))
    }
}

impl Table {
    /// Builds the table from names and states of the servers.
    pub(crate) fn of(servers: &[(String, ServerState)], lifetime: bool, order: SortOrder) -> Table {
        let mut rows: Vec<Row> = servers
            .iter()
            .enumerate()
            .map(|(index, (instance, watched))| Row {
                index,
                instance: instance.clone(),
                server: watched.last.as_ref().map_or_else(String::new, |sample| {
                    let words = [sample.kind.name(), sample.name.as_str(), sample.version.as_str()];
                    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
                }),
                state: watched.state.clone(),
                figures: Figures::of(watched, lifetime),
            })
            .collect();
        rows.sort_by(|a, b| order.compare(a, b));
        let (average, total) = summary(servers, &rows, lifetime);
        let down = rows.iter().filter(|row| matches!(row.state, State::Down(_))).count();
        Table { rows, average, total, down }
    }

    /// Length of the longest name, at least the column's minimum width.
    pub(crate) fn instance_width(&self) -> usize {
        let longest = self.rows.iter().map(|row| row.instance.chars().count()).max().unwrap_or(0);
        longest.clamp(Instance.width(), 40)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

/// Part of a row in the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Another row of the same process has all its figures.
    Nothing,
    /// Another row has the memory of the process; the rest is of this face alone.
    Face,
    All,
}

/// The parts of the servers, each process counted once: by the figures of Larder, which are of all
/// its faces, else by those of each face and the memory of the first.
///
/// Rows are of one process if they are of the same machine, number, time up and memory limit, and
/// of different kinds: processes of containers have the same number, so one may be taken for
/// another, but each is then still counted once.
fn once(servers: &[(String, ServerState)]) -> Vec<Part> {
    let mut parts = vec![Part::All; servers.len()];
    let mut processes: Vec<Vec<usize>> = Vec::new();
    for (at, (name, watched)) in servers.iter().enumerate() {
        let Some(sample) = watched.up() else { continue };
        let is_same = |other: &usize| {
            let (of, known) = &servers[*other];
            known.up().is_some_and(|known| {
                known.kind != sample.kind
                    && known.pid == sample.pid
                    && machine(of) == machine(name)
                    && known.budget == sample.budget
                    // Polled within some seconds of each other, and told in whole ones.
                    && (known.uptime - sample.uptime).abs() < 5.0
            })
        };
        let known = processes.iter_mut().find(|rows| sample.pid != 0 && rows.iter().all(is_same));
        match known {
            Some(rows) => rows.push(at),
            None => processes.push(vec![at]),
        }
    }
    for rows in processes {
        let is_larder =
            |row: &&usize| servers[**row].1.up().is_some_and(|sample| sample.kind == Kind::Larder);
        let larder = rows.iter().find(is_larder).copied();
        for (n, row) in rows.iter().enumerate() {
            parts[*row] = match larder {
                Some(larder) if larder == *row => Part::All,
                Some(_) => Part::Nothing,
                None if n == 0 => Part::All,
                None => Part::Face,
            };
        }
    }
    parts
}

/// The machine of a server's name. A socket is of this one.
fn machine(name: &str) -> &str {
    let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
    match rest.rsplit_once(':').map_or(rest, |(host, _)| host) {
        "localhost" | "[::1]" | "unix" | "" => "127.0.0.1",
        host if host.contains('/') => "127.0.0.1",
        host => host,
    }
}

fn summary(servers: &[(String, ServerState)], rows: &[Row], lifetime: bool) -> (Figures, Figures) {
    let parts = once(servers);
    let counts = |row: &&Row| parts[row.index] != Part::Nothing;
    let up: Vec<&Figures> =
        rows.iter().filter(counts).filter_map(|row| row.figures.as_ref()).collect();
    let whole = rows.iter().filter(|row| parts[row.index] == Part::All);
    let whole: Vec<&Figures> = whole.filter_map(|row| row.figures.as_ref()).collect();
    let rates: Vec<Rates> = up.iter().filter_map(|figures| figures.rates).collect();
    let all = (!rates.is_empty())
        .then(|| rates.iter().fold(Rates::default(), |sum, r| sum.combine(*r, |a, b| a + b)));
    let counted = servers.iter().zip(&parts).filter(|(_, part)| **part != Part::Nothing);
    let counted = counted.filter(|((_, watched), _)| watched.up().is_some());
    let counted = counted.filter_map(|((_, watched), _)| watched.span(lifetime));
    let counted = counted.fold(Counters::default(), |sum, span| sum.plus(span.counters));
    // Servers without a limit are left out: they would make the others look fuller.
    let limited = || whole.iter().filter(|figures| figures.budget.is_some());
    let unlimited = limited().next().is_none();
    let used = |f: &&Figures| f.used;
    let total = Figures {
        used: if unlimited {
            whole.iter().map(used).sum()
        } else {
            limited().map(|f| f.used).sum()
        },
        budget: (!unlimited).then(|| limited().filter_map(|f| f.budget).sum()),
        hit_percent: hit_percent(counted),
        connections: up.iter().map(|f| f.connections).sum(),
        time: None,
        rates: all,
    };
    let n = rates.len() as f64;
    let share = mean(limited().filter_map(|f| f.usage_percent()));
    let average = Figures {
        used: share.or_else(|| mean(whole.iter().map(used))).unwrap_or(0.0),
        budget: share.map(|_| 100.0),
        hit_percent: mean(up.iter().filter_map(|f| f.hit_percent)),
        connections: mean(up.iter().map(|f| f.connections)).unwrap_or(0.0),
        time: mean(up.iter().filter_map(|f| f.time).map(|time| time.as_secs_f64()))
            .map(Duration::from_secs_f64),
        rates: all.map(|all| all.combine(all, |a, _| a / n)),
    };
    (average, total)
}

/// Cells of a row.
pub(crate) fn cells(figures: &Figures, columns: &[Column], alarms: &Alarms) -> Vec<Cell> {
    columns.iter().map(|column| figures.cell(*column, alarms)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::rates::tests::sample_at;

    fn watched(results: &[(u64, u64, u64)]) -> ServerState {
        let start = Instant::now();
        let mut watched = ServerState::default();
        for (seconds, gets, hits) in results {
            watched.take(Ok(sample_at(start, *seconds, "1", *gets, *hits)));
        }
        watched
    }

    fn three() -> Vec<(String, ServerState)> {
        let mut down = watched(&[(0, 0, 0)]);
        down.take(Err("refused".to_owned()));
        vec![
            ("b:1".to_owned(), watched(&[(0, 0, 0), (2, 100, 50)])),
            ("c:1".to_owned(), down),
            ("a:1".to_owned(), watched(&[(0, 200, 0), (2, 500, 300)])),
        ]
    }

    fn names(order: SortOrder) -> Vec<String> {
        Table::of(&three(), false, order).rows.into_iter().map(|row| row.instance).collect()
    }

    #[test]
    fn rows_are_sorted() {
        let by = |column, reverse| SortOrder { by: Some(column), reverse };
        assert_eq!(names(SortOrder::default()), ["b:1", "c:1", "a:1"]);
        assert_eq!(names(SortOrder { by: None, reverse: true }), ["a:1", "c:1", "b:1"]);
        assert_eq!(names(by(Gets, false)), ["a:1", "b:1", "c:1"]);
        assert_eq!(names(by(Gets, true)), ["b:1", "a:1", "c:1"], "what is down stays last");
        assert_eq!(names(by(Instance, false)), ["a:1", "b:1", "c:1"]);
        assert_eq!(names(by(Hit, false)), ["a:1", "b:1", "c:1"]);
    }

    #[test]
    fn totals_are_sums_and_averages_means_of_what_is_up() {
        let table = Table::of(&three(), false, SortOrder::default());
        let shown = |figures: &Figures| {
            cells(figures, &[Usage, Hit, Gets], &Alarms::default())
                .into_iter()
                .map(|cell| cell.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(table.down, 1);
        assert_eq!(table.rows[1].state, State::Down("refused".to_owned()));
        // 50 gets a second with 50 hits of 100, 150 a second with 300 of 300.
        assert_eq!(shown(&table.total), ["30.0%", "87.5", "200"]);
        assert_eq!(shown(&table.average), ["30.0%", "75.0", "100"]);
    }

    /// Faces of one process, each asked by itself.
    #[test]
    fn a_process_counts_once_however_many_of_its_faces_are_listed() {
        let start = Instant::now();
        let face = |kind, gets: u64, pid| {
            let mut watched = ServerState::default();
            for seconds in [0, 2] {
                let mut sample = sample_at(start, seconds, "1", gets * seconds, 0);
                (sample.kind, sample.pid) = (kind, pid);
                (sample.used, sample.connections) = (300, gets);
                watched.take(Ok(sample));
            }
            watched
        };
        let totals = |servers: &[(String, ServerState)]| {
            let table = Table::of(servers, false, SortOrder::default());
            let shown = |figures: &Figures| {
                let cells = cells(figures, &[Usage, Conn, Gets], &Alarms::default());
                cells.into_iter().map(|cell| cell.text).collect::<Vec<_>>().join(" ")
            };
            (table.rows.len(), shown(&table.total), shown(&table.average))
        };
        let name = |text: &str| text.to_owned();
        let faces = [
            (name("127.0.0.1:11211"), face(Kind::Memcached, 1, 7)),
            (name("localhost:6379"), face(Kind::Redis, 2, 7)),
        ];
        // Both faces, and the memory once.
        assert_eq!(totals(&faces), (2, name("30.0% 3 3"), name("30.0% 1.50 1.50")));
        let mut all = faces.to_vec();
        all.push((name("http://127.0.0.1:9000"), face(Kind::Larder, 3, 7)));
        assert_eq!(totals(&all), (3, name("30.0% 3 3"), name("30.0% 3 3")));
        // Of another machine, or another process.
        all.push((name("10.0.0.1:11211"), face(Kind::Memcached, 10, 7)));
        all.push((name("127.0.0.1:11212"), face(Kind::Memcached, 100, 8)));
        assert_eq!(totals(&all), (5, name("30.0% 113 113"), name("30.0% 37.7 37.7")));
    }

    #[test]
    fn nothing_up_is_no_table_of_zeros() {
        let table =
            Table::of(&[("a".to_owned(), ServerState::default())], false, SortOrder::default());
        assert_eq!(table.total.cell(Gets, &Alarms::default()).text, "-");
        assert_eq!(table.average.cell(Hit, &Alarms::default()).text, "-");
    }

    #[test]
    fn alarms_are_read_and_sound() {
        let alarms: Alarms = "usage=50,hit=60%,time=2ms,evict=0.5,conn=10".parse().expect("alarms");
        let table = Table::of(&three(), false, SortOrder::default());
        let sounds = |row: usize, column| {
            let figures = table.rows[row].figures.as_ref();
            figures.is_some_and(|figures| figures.cell(column, &alarms).alarm)
        };
        assert!(sounds(0, Hit) && !sounds(2, Hit));
        assert!(sounds(2, Usage) && !sounds(0, Usage));
        assert!(!sounds(0, Time) && !sounds(0, Evict));
        assert_eq!("none".parse(), Ok(Alarms::default()));
        for text in ["usage", "usage=x", "hit=-1", "time=soon", "speed=1", "evict=inf"] {
            assert!(text.parse::<Alarms>().is_err(), "{text}");
        }
    }

    #[test]
    fn columns_give_way_on_narrow_terminals() {
        assert_eq!(columns(false, 80, 15).len(), 10, "all but what answers");
        assert_eq!(columns(false, 200, 15).last(), Some(&Server));
        assert_eq!(columns(false, 41, 15), [Instance, Usage, Hit, Time, Gets]);
        assert_eq!(columns(false, 5, 15), [Instance, Hit]);
        assert_eq!(columns(true, 80, 15).len(), 10);
        assert!(columns(true, 30, 15).len() >= 2);
    }

    #[test]
    fn columns_have_names() {
        assert_eq!("hit".parse(), Ok(Hit));
        assert_eq!("GETS".parse(), Ok(Gets));
        assert!("server".parse::<Column>().is_err());
    }
}
