//! Results of a comparison.

use serde::Serialize;

use super::{machine::Machine, spread::Spread};

/// A complete comparison.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) title: String,
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// Servers and the versions they report.
    pub(crate) versions: Vec<(String, String)>,
    /// Description of the method, as name and value.
    pub(crate) how: Vec<(String, String)>,
    /// Servers missing from the tables, with the reason.
    pub(crate) left_out: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) grids: Vec<Grid>,
    /// An installed server failed to start.
    pub(crate) broken: bool,
    pub(crate) interrupted: bool,
}

/// Results of all servers for one workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// The workload: `1,000 B`, `get 100 B, depth 16`.
    pub(crate) title: String,
    /// Unit of the figures: request, operation, key.
    pub(crate) unit: String,
    pub(crate) measure: Measure,
    pub(crate) rows: Vec<Row>,
}

/// The figure servers are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measure {
    /// Processor time of the server.
    Cpu,
    /// Processor time of server and generator: over loopback the generator's acknowledgements do
    /// part of the sending.
    Total,
}

/// Result of one server for one workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// `nginx-static`, `memcached:text`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// The row its ratio refers to.
    pub(crate) base: Option<String>,
    /// Whether it is Larder.
    pub(crate) ours: bool,
    /// Why it is not ranked: a wrong answer.
    pub(crate) wrong: Option<String>,
    pub(crate) figures: Option<Figures>,
    /// For Larder: rows with a lower measure.
    pub(crate) behind: Vec<Deficit>,
    pub(crate) rounds: Vec<Round>,
}

/// One visit to a server.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// Number of units processed.
    pub(crate) done: u64,
    pub(crate) seconds: f64,
    /// Server time per unit in microseconds.
    pub(crate) cpu: f64,
    /// Server and generator time per unit in microseconds.
    pub(crate) total: f64,
    /// Median latency in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Figures over all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Microseconds per unit.
    pub(crate) cpu: Spread,
    /// Microseconds per unit.
    pub(crate) total: Spread,
    pub(crate) per_second: Spread,
    /// In microseconds.
    pub(crate) p50: Spread,
    /// In microseconds.
    pub(crate) p99: Spread,
    /// Ratio of the measure to that of the base in the same round.
    pub(crate) ratio: Option<Spread>,
}

/// A row that is ahead of Larder.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Deficit {
    pub(crate) row: String,
    pub(crate) title: String,
    /// Ratio of Larder's measure to that row's in the same round.
    pub(crate) ratio: Spread,
}

/// Single measurements without rounds: one row per server, one column per case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Grid {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<GridRow>,
    /// Whether lower is better.
    pub(crate) less: bool,
    /// Decimal places.
    pub(crate) digits: usize,
}

/// Row of a grid.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GridRow {
    pub(crate) title: String,
    pub(crate) ours: bool,
    /// Whether it is a rival server; computed rows (exact LRU) are not.
    pub(crate) rival: bool,
    pub(crate) values: Vec<Option<f64>>,
}

impl Round {
    pub(crate) fn measure(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Cpu => self.cpu,
            Measure::Total => self.total,
        }
    }
}

impl Table {
    /// Computes figures, ratios and ranks from the rounds.
    pub(crate) fn finish(mut self) -> Self {
        let measure = self.measure;
        let figures: Vec<Option<Figures>> = self.rows.iter().map(|row| self.figures(row)).collect();
        let behind: Vec<Vec<Deficit>> =
            self.rows.iter().map(|row| self.behind(row, measure)).collect();
        for ((row, figures), behind) in self.rows.iter_mut().zip(figures).zip(behind) {
            (row.figures, row.behind) = (figures, behind);
        }
        self
    }

    fn figures(&self, row: &Row) -> Option<Figures> {
        if row.wrong.is_some() {
            return None;
        }
        let over = |figure: fn(&Round) -> f64| Spread::of(row.rounds.iter().map(figure));
        let base = row.base.as_ref().and_then(|name| self.ranked(name));
        Some(Figures {
            cpu: over(|round| round.cpu)?,
            total: over(|round| round.total)?,
            per_second: over(|round| round.done as f64 / round.seconds)?,
            p50: over(|round| round.p50)?,
            p99: over(|round| round.p99)?,
            ratio: base.and_then(|base| ratio(row, base, self.measure)),
        })
    }

    fn ranked(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name && row.wrong.is_none())
    }

    /// Rows of other servers with the same base and a lower measure. The base itself counts unless
    /// it is a floor.
    fn behind(&self, row: &Row, measure: Measure) -> Vec<Deficit> {
        if !row.ours || row.wrong.is_some() {
            return Vec::new();
        }
        let rivals = self
            .rows
            .iter()
            .filter(|other| !other.ours && other.wrong.is_none() && other.name != "floor");
        let rivals = rivals.filter(|other| other.base == row.base);
        let all = rivals.filter_map(|other| {
            let ratio = ratio(row, other, measure)?;
            Some(Deficit { row: other.name.clone(), title: other.title.clone(), ratio })
        });
        all.filter(|behind| behind.ratio.median > 1.0).collect()
    }
}

/// Over the rounds that both rows have.
fn ratio(row: &Row, to: &Row, measure: Measure) -> Option<Spread> {
    let pairs = row.rounds.iter().zip(&to.rounds);
    Spread::of(pairs.map(|(row, to)| row.measure(measure) / to.measure(measure)))
}

impl Comparison {
    /// Every case in which Larder is behind, as text.
    pub(crate) fn behind(&self) -> Vec<String> {
        let rows =
            self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let tables = rows.filter(|(_, row)| !row.behind.is_empty()).map(|(table, row)| {
            let each = row
                .behind
                .iter()
                .map(|behind| format!("{} times {}", behind.ratio.ratio(), behind.title));
            format!("{}: {} took {}", table.title, row.title, each.collect::<Vec<_>>().join("; "))
        });
        let grids = self.grids.iter().flat_map(|grid| {
            let ours = grid.rows.iter().filter(|row| row.ours);
            ours.flat_map(move |row| {
                (0..grid.columns.len()).filter_map(move |at| grid.behind(row, at))
            })
        });
        tables.chain(grids).collect()
    }
}

impl Grid {
    /// Text if the best rival is better than this row.
    fn behind(&self, row: &GridRow, column: usize) -> Option<String> {
        let value = row.values.get(column).copied()??;
        let rivals = self.rows.iter().filter(|other| other.rival && !other.ours);
        let found = rivals.filter_map(|other| Some((other, other.values.get(column).copied()??)));
        let better = |other: f64| if self.less { other < value } else { other > value };
        let (rival, best) =
            found.filter(|(_, other)| better(*other)).min_by(|(_, a), (_, b)| {
                let order = a.total_cmp(b);
                if self.less { order } else { order.reverse() }
            })?;
        let digits = self.digits;
        let (title, column) = (&self.title, &self.columns[column]);
        Some(format!(
            "{title}, {column}: {} {value:.digits$}, {} {best:.digits$}",
            row.title, rival.title
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, base: Option<&str>, cpu: &[f64]) -> Row {
        let round = |cpu: &f64| Round {
            done: 10,
            seconds: 0.5,
            cpu: *cpu,
            total: cpu + 1.0,
            p50: 5.0,
            p99: 9.0,
        };
        Row {
            name: name.to_owned(),
            title: name.to_uppercase(),
            base: base.map(str::to_owned),
            ours: name.starts_with("larder"),
            wrong: None,
            figures: None,
            behind: Vec::new(),
            rounds: cpu.iter().map(round).collect(),
        }
    }

    fn table(rows: Vec<Row>) -> Table {
        Table { title: "1,000 B".into(), unit: "request".into(), measure: Measure::Cpu, rows }
            .finish()
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        // Both double from round to round, as on a machine of varying speed: the ratio stays.
        let table = table(vec![
            row("floor", Some("floor"), &[1.0, 2.0, 4.0]),
            row("larder", Some("floor"), &[1.5, 3.0, 6.0]),
        ]);
        let ratio = table.rows[1].figures.unwrap().ratio.unwrap();
        assert_eq!(ratio, Spread { median: 1.5, q1: 1.5, q3: 1.5, n: 3 });
        assert_eq!(table.rows[1].figures.unwrap().per_second.median, 20.0);
    }

    #[test]
    fn larder_is_behind_whoever_took_less_but_the_floor() {
        let rows = vec![
            row("floor", Some("floor"), &[1.0, 1.0]),
            row("larder", Some("floor"), &[2.0, 2.0]),
            row("quick", Some("floor"), &[1.6, 1.6]),
            row("slow", Some("floor"), &[4.0, 4.0]),
        ];
        let table = table(rows);
        let behind: Vec<&str> =
            table.rows[1].behind.iter().map(|behind| behind.row.as_str()).collect();
        assert_eq!(behind, ["quick"]);
        assert_eq!(table.rows[1].behind[0].ratio.median, 1.25);
    }

    #[test]
    fn who_answers_wrongly_is_not_ranked_and_nobody_is_behind_it() {
        let mut cheat = row("cheat", Some("floor"), &[0.1]);
        cheat.wrong = Some("other bytes".to_owned());
        let table = table(vec![row("larder", Some("cheat"), &[2.0]), cheat]);
        assert!(table.rows[1].figures.is_none());
        assert!(table.rows[0].behind.is_empty());
        assert!(table.rows[0].figures.unwrap().ratio.is_none());
    }

    #[test]
    fn a_grid_knows_which_way_is_better() {
        let grid_row = |title: &str, ours, rival, value| GridRow {
            title: title.into(),
            ours,
            rival,
            values: vec![Some(value)],
        };
        let rows = vec![
            grid_row("a", false, true, 0.5),
            grid_row("ideal", false, false, 0.9),
            grid_row("Larder", true, true, 0.4),
        ];
        let mut grid = Grid {
            title: "hits".into(),
            columns: vec!["zipf".into()],
            rows,
            less: false,
            digits: 2,
        };
        assert_eq!(grid.behind(&grid.rows[2], 0).unwrap(), "hits, zipf: Larder 0.40, a 0.50");
        grid.less = true;
        assert_eq!(grid.behind(&grid.rows[2], 0), None);
    }
}
