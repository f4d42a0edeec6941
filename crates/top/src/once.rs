//! `larder top --once`: the table as text or JSON.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    TopArgs, exit,
    poll::Server,
    rates::{ServerState, State},
    sample::{COMMANDS, Counters},
    table::{Column, Figures, Rates, Row, SortOrder, Table, cells, columns},
};

/// Wide enough for all columns.
const WIDTH: usize = 1000;

/// Polls all servers at once, twice if rates are wanted, and prints the table.
pub(crate) async fn run(args: &TopArgs, servers: Vec<Server>) -> ExitCode {
    let (interval, lifetime) = (args.interval, args.lifetime);
    let tasks: Vec<_> = servers
        .into_iter()
        .map(|mut server| {
            tokio::spawn(async move {
                let mut watched = ServerState::default();
                watched.take(server.poll(false).await);
                if !lifetime {
                    sleep(interval).await;
                    watched.take(server.poll(false).await);
                }
                (server.name(), watched)
            })
        })
        .collect();
    let mut polled = Vec::with_capacity(tasks.len());
    for task in tasks {
        match task.await {
            Ok(server) => polled.push(server),
            // A task ends early only by a panic, which has printed its message.
            Err(_) => return ExitCode::from(exit::SOME_DOWN),
        }
    }
    let table = Table::of(&polled, lifetime, SortOrder { by: args.sort, reverse: false });
    let text = if args.json { as_json(args, &polled, &table) } else { as_text(args, &table) };
    // If standard output is closed, nothing is left to do.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    match table.down {
        0 => ExitCode::SUCCESS,
        down if down == table.rows.len() => ExitCode::from(exit::UNREACHABLE),
        _ => ExitCode::from(exit::SOME_DOWN),
    }
}

fn as_text(args: &TopArgs, table: &Table) -> String {
    let instance =
        table.rows.iter().map(|row| row.instance.chars().count()).max().unwrap_or(0).max(15);
    let columns = columns(args.commands, WIDTH, instance);
    let line = |name: &str, server: &str, values: Vec<String>| {
        let cell = |(column, value): (&Column, String)| match column {
            Column::Instance => format!("{name:instance$}"),
            Column::Server => server.to_owned(),
            _ => format!("{value:>width$}", width = column.width()),
        };
        let cells: Vec<String> = columns.iter().zip(values).map(cell).collect();
        format!("{}\n", cells.join(" ").trim_end())
    };
    let figures = |name: &str, server: &str, figures: &Figures| {
        let marked = |cell: crate::table::Cell| cell.text;
        line(name, server, cells(figures, &columns, &args.alarm).into_iter().map(marked).collect())
    };
    let heads = columns.iter().map(|column| column.head().to_owned()).collect();
    let mut text = line("INSTANCE", "SERVER", heads);
    for row in &table.rows {
        text.push_str(&match (&row.figures, &row.state) {
            (Some(values), _) => figures(&row.instance, &row.server, values),
            (None, State::Down(why)) => format!("{:instance$} DOWN: {why}\n", row.instance),
            (None, _) => format!("{:instance$} -\n", row.instance),
        });
    }
    text.push_str(&figures("AVERAGE", "", &table.average));
    text.push_str(&figures("TOTAL", "", &table.total));
    text
}

/// Exact numbers, not rounded; unknown values are null.
fn as_json(args: &TopArgs, polled: &[(String, ServerState)], table: &Table) -> String {
    let servers: Vec<Value> = table
        .rows
        .iter()
        .filter_map(|row| {
            polled.get(row.index).map(|(_, watched)| server(row, watched, args.lifetime))
        })
        .collect();
    let sum = |figures: &Figures| {
        json!({
            "usage_percent": figures.usage_percent(),
            "hit_percent": figures.hit_percent,
            "connections": figures.connections,
            "time_ms": figures.time.map(|time| time.as_secs_f64() * 1e3),
            "rates": figures.rates.map(|rates| rates_of(&rates)),
        })
    };
    let all = json!({
        "version": 1,
        "rates_of": if args.lifetime { "lifetime" } else { "interval" },
        "servers": servers,
        "average": sum(&table.average),
        "total": sum(&table.total),
    });
    format!("{all:#}\n")
}

fn server(row: &Row, watched: &ServerState, lifetime: bool) -> Value {
    let (state, why) = match &row.state {
        State::Up => ("up", None),
        State::Waiting => ("waiting", None),
        State::Down(why) => ("down", Some(why)),
    };
    let Some(sample) = watched.up() else {
        return json!({"instance": row.instance, "state": state, "why": why});
    };
    let span = watched.span(lifetime);
    let figures = row.figures.clone().unwrap_or_default();
    let faces = sample.faces.iter().map(|face| {
        json!({"face": face.name, "connections": face.connections, "counters": counters(face.counters, false)})
    });
    json!({
        "instance": row.instance,
        "state": state,
        "kind": sample.kind.name(),
        "name": sample.name.as_str(),
        "version": sample.version.as_str(),
        "uptime_s": sample.uptime,
        "used_bytes": sample.used,
        "budget_bytes": sample.budget,
        "usage_percent": figures.usage_percent(),
        "hit_percent": figures.hit_percent,
        "connections": sample.connections,
        "time_ms": sample.took.as_secs_f64() * 1e3,
        "interval_s": span.map(|span| span.seconds),
        "interval": span.map(|span| counters(span.counters, true)),
        "rates": figures.rates.map(|rates| rates_of(&rates)),
        "counters": counters(sample.counters, true),
        "faces": faces.collect::<Vec<_>>(),
    })
}

/// `evictions`: false for a face, as evictions are counted by the store.
fn counters(counters: Counters, evictions: bool) -> Value {
    let mut value = json!({
        "gets": counters.gets,
        "hits": counters.hits,
        "sets": counters.sets,
        "read_bytes": counters.read,
        "written_bytes": counters.written,
    });
    if evictions && let Some(map) = value.as_object_mut() {
        map.insert("evictions".to_owned(), counters.evictions.into());
    }
    value
}

fn rates_of(rates: &Rates) -> Value {
    let commands = COMMANDS.iter().zip(rates.commands);
    let commands =
        commands.map(|(head, rate)| (head.trim_end_matches("/s").to_lowercase(), rate.into()));
    json!({
        "evictions": rates.evictions,
        "gets": rates.gets,
        "sets": rates.sets,
        "read_bytes": rates.read,
        "written_bytes": rates.written,
        "commands": commands.collect::<serde_json::Map<String, Value>>(),
    })
}
