//! From TOML to typed values, by the table of options. First of two stages: names, types and
//! ranges. `build.rs` combines the values.

use std::ops::Range;

use toml_edit::{Item as TomlItem, TableLike, Value as TomlValue};

use super::{
    item::{FromItem, Item, NEAREST, default_items, expected, parse},
    options::{Kind, Opt, Section},
    problem::{Location, Problem, Report, nearest},
};

/// The value of an option.
#[derive(Clone, Debug)]
pub(crate) enum Setting {
    /// One value, or those of a list, each with its location.
    Items(Vec<(Item, Location)>),
    /// A table.
    Table(Values),
    /// Tables.
    Tables(Vec<Values>),
}

/// A table of the file, read.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) section: Section,
    /// The header of the table, or the whole of an inline one.
    pub(crate) location: Location,
    set: Vec<(&'static Opt, Location, Setting)>,
    /// Keys of the file, including those with a mistake in their value.
    written: Vec<&'static str>,
}

impl Values {
    /// A table in which nothing is set.
    pub(crate) fn empty(section: Section, location: Location) -> Values {
        Values { section, location, set: Vec::new(), written: Vec::new() }
    }

    /// Sets an option from the text of a flag, which replaces the value of the file.
    pub(crate) fn set_from_flag(
        &mut self,
        name: &str,
        flag: &'static str,
        texts: &[String],
        report: &mut Report,
    ) {
        let Some(opt) = self.section.option(name) else { return };
        let mut items = Vec::new();
        for text in texts {
            match parse(opt.kind, text) {
                Ok(item) => items.push((item, Location::Flag(flag))),
                Err(expected) => {
                    let problem = wrong(Location::Flag(flag), &expected, &format!("{text:?}"));
                    let number = matches!(opt.kind, Kind::Time(..))
                        .then(|| format!("{text}s"))
                        .filter(|with_unit| parse(opt.kind, with_unit).is_ok());
                    report.error(match number {
                        Some(with_unit) => problem.fix(format!("with a unit: {flag} {with_unit}")),
                        None => problem,
                    });
                }
            }
        }
        self.set.retain(|(held, ..)| held.name != opt.name);
        self.set.push((opt, Location::Flag(flag), Setting::Items(items)));
    }

    /// Sets an option to its default, as if it had been written.
    pub(crate) fn set_default(&mut self, opt: &'static Opt, items: Vec<Item>) {
        let items = items.into_iter().map(|item| (item, Location::Whole)).collect();
        self.set.push((opt, Location::Whole, Setting::Items(items)));
    }

    /// The table `name` to change, made if it is missing.
    pub(crate) fn table_mut(&mut self, name: &str) -> Option<&mut Values> {
        let opt = self.section.option(name)?;
        let Kind::Table(section, _) = opt.kind else { return None };
        if !self.is_set(name) {
            let empty = Values::empty(section, Location::Whole);
            self.set.push((opt, Location::Whole, Setting::Table(empty)));
        }
        self.set.iter_mut().find_map(|(held, _, setting)| match setting {
            Setting::Table(values) if held.name == name => Some(values),
            _ => None,
        })
    }

    /// The list of tables `name` to change, made if it is missing.
    pub(crate) fn tables_mut(&mut self, name: &str) -> Option<&mut Vec<Values>> {
        let opt = self.section.option(name)?;
        if !self.is_set(name) {
            self.set.push((opt, Location::Whole, Setting::Tables(Vec::new())));
        }
        self.set.iter_mut().find_map(|(held, _, setting)| match setting {
            Setting::Tables(tables) if held.name == name => Some(tables),
            _ => None,
        })
    }

    /// Whether the file or a flag sets it.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.setting(name).is_some()
    }

    /// Whether a value is set that is right. A flag with a mistake sets none.
    pub(crate) fn has_value(&self, name: &str) -> bool {
        match self.setting(name) {
            Some(Setting::Items(items)) => !items.is_empty(),
            other => other.is_some(),
        }
    }

    /// Whether the file has it, right or wrong.
    pub(crate) fn is_written(&self, name: &str) -> bool {
        self.written.contains(&name)
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        self.set.iter().find(|(opt, ..)| opt.name == name).map(|(_, _, setting)| setting)
    }

    /// The location of the option; if it is not set, that of the table.
    pub(crate) fn location(&self, name: &str) -> Location {
        let held = self.set.iter().find(|(opt, ..)| opt.name == name);
        held.map_or_else(|| self.location.clone(), |(_, location, _)| location.clone())
    }

    /// The set values with their positions.
    pub(crate) fn items<T: FromItem>(&self, name: &str) -> Option<Vec<(T, Location)>> {
        let Some(Setting::Items(items)) = self.setting(name) else { return None };
        Some(
            items
                .iter()
                .filter_map(|(item, location)| Some((T::from_item(item)?, location.clone())))
                .collect(),
        )
    }

    /// The set value.
    pub(crate) fn maybe<T: FromItem>(&self, name: &str) -> Option<T> {
        self.items(name)?.into_iter().next().map(|(value, _)| value)
    }

    /// The set list.
    pub(crate) fn maybe_list<T: FromItem>(&self, name: &str) -> Option<Vec<T>> {
        Some(self.items(name)?.into_iter().map(|(value, _)| value).collect())
    }

    /// The set value, or the default. None: neither.
    pub(crate) fn get<T: FromItem>(&self, name: &str) -> Option<T> {
        self.list(name).into_iter().next()
    }

    /// The set list, or the default.
    pub(crate) fn list<T: FromItem>(&self, name: &str) -> Vec<T> {
        if let Some(set) = self.maybe_list(name) {
            return set;
        }
        let Some(opt) = self.section.option(name) else { return Vec::new() };
        default_items(opt).iter().filter_map(T::from_item).collect()
    }

    /// The table `name`; an empty one if it is missing.
    pub(crate) fn table(&self, name: &str) -> Values {
        match (self.setting(name), self.section.option(name).map(|opt| opt.kind)) {
            (Some(Setting::Table(values)), _) => values.clone(),
            (_, Some(Kind::Table(section, _))) => Values::empty(section, self.location(name)),
            _ => Values::empty(self.section, self.location.clone()),
        }
    }

    /// The tables `name`.
    pub(crate) fn tables(&self, name: &str) -> &[Values] {
        match self.setting(name) {
            Some(Setting::Tables(tables)) => tables,
            _ => &[],
        }
    }
}

/// `expected` may end with the nearest word ([`NEAREST`]), which is the remedy.
fn wrong(location: Location, expected: &str, found: &str) -> Problem {
    match expected.split_once(NEAREST) {
        Some((expected, near)) => {
            Problem::new(location, format!("expected {expected}, found {found}"))
                .fix(format!("did you mean {near}"))
        }
        None => Problem::new(location, format!("expected {expected}, found {found}")),
    }
}

/// Reads a whole file. Unreadable parts are reported and left out.
pub(crate) fn read_root(text: &str, report: &mut Report) -> Values {
    match toml_edit::Document::parse(text) {
        Ok(document) => read_table(Section::Root, document.as_table(), 0..0, report),
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let message =
                format!("not TOML: {}", error.message().lines().collect::<Vec<_>>().join(", "));
            report.error(Problem::new(Location::File(span), message));
            Values::empty(Section::Root, Location::Whole)
        }
    }
}

/// Reads one table by the options of its section.
pub(crate) fn read_table(
    section: Section,
    table: &dyn TableLike,
    span: Range<usize>,
    report: &mut Report,
) -> Values {
    let mut values = Values::empty(section, Location::File(span.clone()));
    for (key, item) in table.iter() {
        let key_span = table
            .key(key)
            .and_then(toml_edit::Key::span)
            .or_else(|| item.span())
            .unwrap_or(span.clone());
        match section.option(key) {
            Some(opt) => {
                values.written.push(opt.name);
                if let Some(setting) = read_item(opt, item, &key_span, report) {
                    values.set.push((opt, Location::File(key_span), setting));
                }
            }
            None => report.error(unknown(section, key, key_span)),
        }
    }
    for opt in section.options().filter(|opt| opt.required && !table.contains_key(opt.name)) {
        let message = format!("`{}` is missing in {}", opt.name, section.title());
        let fix = format!("{}: {}", opt.name, opt.help);
        report.error(Problem::new(Location::File(span.clone()), message).fix(fix));
    }
    values
}

fn unknown(section: Section, key: &str, span: Range<usize>) -> Problem {
    let problem =
        Problem::new(Location::File(span), format!("unknown key `{key}` in {}", section.title()));
    if let Some(near) = nearest(key, section.options().map(|opt| opt.name)) {
        return problem.fix(format!("did you mean `{near}`?"));
    }
    let elsewhere = Section::DOCUMENTED.into_iter().find(|other| other.option(key).is_some());
    match elsewhere {
        Some(other) => problem.fix(format!("`{key}` belongs into {}", other.title())),
        None => problem.fix(format!(
            "known here: {}",
            section.options().map(|opt| opt.name).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn read_item(
    opt: &'static Opt,
    item: &TomlItem,
    key: &Range<usize>,
    report: &mut Report,
) -> Option<Setting> {
    let span = item.span().unwrap_or_else(|| key.clone());
    match opt.kind {
        Kind::Table(section, short) => {
            if let Some(table) = item.as_table_like() {
                return Some(Setting::Table(read_table(
                    section,
                    table,
                    span_of_table(item, key),
                    report,
                )));
            }
            let short = short.and_then(|name| section.option(name));
            let (Some(short), Some(text)) = (short, item.as_value()) else {
                report.error(wrong(Location::File(span), &expected(opt.kind), found(item)));
                return None;
            };
            let items = read_values(short, text, &span, report)?;
            let mut values = Values::empty(section, Location::File(span.clone()));
            values.set.push((short, Location::File(span), Setting::Items(items)));
            Some(Setting::Table(values))
        }
        Kind::Tables(section) => read_tables(opt, section, item, span, report),
        Kind::ErrorPage => read_pairs(opt, item, &span, report),
        _ => {
            let Some(value) = item.as_value() else {
                report.error(wrong(Location::File(span), &expected(opt.kind), found(item)));
                return None;
            };
            read_values(opt, value, &span, report).map(Setting::Items)
        }
    }
}

/// The header of a table, for messages about the whole table.
fn span_of_table(item: &TomlItem, key: &Range<usize>) -> Range<usize> {
    item.span().unwrap_or_else(|| key.clone())
}

fn read_tables(
    opt: &'static Opt,
    section: Section,
    item: &TomlItem,
    span: Range<usize>,
    report: &mut Report,
) -> Option<Setting> {
    let mut tables = Vec::new();
    if let Some(array) = item.as_array_of_tables() {
        for table in array {
            let span = table.span().unwrap_or_else(|| span.clone());
            tables.push(read_table(section, table, span, report));
        }
    } else if let Some(array) = item.as_array() {
        for value in array {
            let span = value.span().unwrap_or_else(|| span.clone());
            match value.as_inline_table() {
                Some(table) => tables.push(read_table(section, table, span, report)),
                None => report.error(wrong(Location::File(span), "a table", value.type_name())),
            }
        }
    } else {
        let problem = wrong(Location::File(span), &expected(opt.kind), found(item));
        let header = match section {
            Section::Site => "[[site]]",
            _ => section.title(),
        };
        report.error(problem.fix(format!("write {header}, with two brackets on each side")));
        return None;
    }
    Some(Setting::Tables(tables))
}

/// Reads a table whose keys are free: an item for each key and its value.
fn read_pairs(
    opt: &Opt,
    item: &TomlItem,
    span: &Range<usize>,
    report: &mut Report,
) -> Option<Setting> {
    let Some(table) = item.as_table_like() else {
        report.error(wrong(Location::File(span.clone()), &expected(opt.kind), found(item)));
        return None;
    };
    let before = report.errors.len();
    let mut items = Vec::new();
    for (key, value) in table.iter() {
        let location = Location::File(value.span().unwrap_or_else(|| span.clone()));
        let Some(text) = value.as_str() else {
            report.error(wrong(location, "a text", found(value)));
            continue;
        };
        match parse(opt.kind, &format!("{key}={text}")) {
            Ok(item) => items.push((item, location)),
            Err(expected) => {
                report.error(wrong(location, &expected, &format!("{key} = {text:?}")));
            }
        }
    }
    (report.errors.len() == before).then_some(Setting::Items(items))
}

fn read_values(
    opt: &Opt,
    value: &TomlValue,
    span: &Range<usize>,
    report: &mut Report,
) -> Option<Vec<(Item, Location)>> {
    let Some(array) = value.as_array() else {
        return read_value(opt, value, span, report).map(|item| vec![item]);
    };
    if !opt.list {
        report.error(wrong(Location::File(span.clone()), &expected(opt.kind), "a list"));
        return None;
    }
    let before = report.errors.len();
    let items: Vec<_> = array
        .iter()
        .filter_map(|value| {
            let span = value.span().unwrap_or_else(|| span.clone());
            read_value(opt, value, &span, report)
        })
        .collect();
    (report.errors.len() == before).then_some(items)
}

fn read_value(
    opt: &Opt,
    value: &TomlValue,
    span: &Range<usize>,
    report: &mut Report,
) -> Option<(Item, Location)> {
    let location = Location::File(value.span().unwrap_or_else(|| span.clone()));
    let integer = value.as_integer().and_then(|number| u64::try_from(number).ok());
    let text = match (opt.kind, value) {
        (Kind::Bool, TomlValue::Boolean(on)) => on.value().to_string(),
        (
            Kind::Count(..) | Kind::Size(..) | Kind::SizeOrAuto(_) | Kind::AppListen,
            TomlValue::Integer(_),
        ) => integer.map(|n| n.to_string()).unwrap_or_default(),
        (Kind::Bool | Kind::Count(..), TomlValue::String(text)) => {
            let fix = format!("write {} without quotes", text.value());
            let problem = wrong(location.clone(), &expected(opt.kind), "a text");
            let plain = parse(opt.kind, text.value()).is_ok();
            report.error(if plain { problem.fix(fix) } else { problem });
            return None;
        }
        (_, TomlValue::String(text)) => text.value().clone(),
        (kind, other) => {
            let problem = wrong(location, &expected(kind), &shown(other));
            report.error(match (kind, integer) {
                (Kind::Time(..), Some(number)) => {
                    problem.fix(format!("with a unit: \"{number}s\""))
                }
                _ => problem,
            });
            return None;
        }
    };
    match parse(opt.kind, &text) {
        Ok(item) => Some((item, location)),
        Err(expected) => {
            report.error(wrong(location, &expected, &shown(value)));
            None
        }
    }
}

/// The value as written, if it is short.
fn shown(value: &TomlValue) -> String {
    match value {
        TomlValue::String(text) => format!("{:?}", text.value()),
        TomlValue::Integer(number) => number.value().to_string(),
        TomlValue::Boolean(on) => on.value().to_string(),
        TomlValue::Array(_) => "a list".to_owned(),
        TomlValue::InlineTable(_) => "a table".to_owned(),
        other => format!("a {}", other.type_name()),
    }
}

fn found(item: &TomlItem) -> &'static str {
    match item {
        TomlItem::Table(_) => "a table",
        TomlItem::ArrayOfTables(_) => "tables",
        TomlItem::Value(TomlValue::Array(_)) => "a list",
        TomlItem::Value(value) => value.type_name(),
        TomlItem::None => "nothing",
    }
}
