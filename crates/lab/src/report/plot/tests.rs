//! Tests of finished plots.

use super::*;
use crate::report::html::well_formed;

fn lines() -> Lines {
    Lines::new(
        "Latency <over> time",
        Axis::new("seconds & more", Unit::Seconds),
        Axis::new("latency", Unit::Seconds),
    )
    .with(Series::new("p50", (0..50).map(|n| (f64::from(n), 0.001))))
    .with(Series::new(
        "p99 \"x\"",
        (0..50).map(|n| (f64::from(n), if n == 20 { f64::NAN } else { 0.002 })),
    ))
}

#[test]
fn no_marker_is_left_and_the_document_is_well_formed() {
    let bars = Bars::new("Rate", Axis::new("req/s", Unit::Number), ["a <b>", "c"])
        .with("one", [1.0, 2.0])
        .with("two", [3.0, f64::NAN]);
    for svg in [lines().svg(), lines().standalone(), bars.svg(), bars.standalone()] {
        well_formed(&svg).unwrap_or_else(|why| panic!("{why}\n{svg}"));
        assert!(!svg.contains("\"#"), "a colour that no scheme changes: {svg}");
        assert!(svg.contains("class=\"l1\"") || svg.contains("class=\"f1\""), "{svg}");
    }
    assert!(lines().svg().contains("<title>Latency &lt;over&gt; time</title>"));
}

#[test]
fn a_gap_is_a_gap() {
    let render = lines().svg();
    let of = |class: &str| {
        render.lines().filter(|line| line.starts_with("<polyline") && line.contains(class)).count()
    };
    assert_eq!((of("class=\"l1\""), of("class=\"l2\"")), (1, 2), "{render}");
}

#[test]
fn many_points_keep_their_extremes() {
    let points = (0..100_000).map(|n| (f64::from(n), if n == 77_777 { 900.0 } else { 1.0 }));
    let plot = Lines::new("t", Axis::default(), Axis::default()).with(Series::new("s", points));
    let svg = plot.svg();
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
    let peak = svg.lines().find(|line| line.contains("class=\"l1\"")).unwrap();
    let heights: Vec<i32> =
        peak.split_whitespace().filter_map(|pair| pair.split_once(',')?.1.parse().ok()).collect();
    assert!(
        heights.iter().max().unwrap() - heights.iter().min().unwrap() > 500,
        "the peak is gone"
    );
}

#[test]
fn nothing_to_show_is_shown_as_nothing() {
    for plot in [
        Lines::new("t", Axis::default(), Axis::default()),
        Lines::new("t", Axis::default().scale(Scale::Log), Axis::default().scale(Scale::Log))
            .with(Series::new("s", [(0.0, 0.0)])),
        Lines::new("t", Axis::default(), Axis::default())
            .with(Series::new("s", [(1.0, f64::INFINITY), (1.0, 5.0)])),
    ] {
        well_formed(&plot.svg()).unwrap();
    }
    well_formed(&Bars::new("t", Axis::default(), Vec::<String>::new()).svg()).unwrap();
    well_formed(&Bars::new("t", Axis::default(), ["a"]).with("s", [0.0]).svg()).unwrap();
    well_formed(&Bars::new("t", Axis::default(), ["a", "b"]).with("s", [-5.0, 3.0]).svg()).unwrap();
}
