use proptest::prelude::*;

use super::*;

fn position() -> impl Strategy<Value = Position> {
    (-180.0..=180.0, -85.05..=85.05)
        .prop_map(|(longitude, latitude)| Position { longitude, latitude })
}

proptest! {
    #[test]
    fn a_score_is_near_its_position(own in position()) {
        let again = Position::of_score(own.score());
        prop_assert!(own.distance(again) < 1.0, "{own:?} {again:?}");
        prop_assert_eq!(again.score(), own.score());
    }

    #[test]
    fn what_is_within_a_circle_is_in_a_range(
        middle in (-170.0..170.0, -70.0..70.0f64),
        (east, north) in (-1.0..1.0f64, -1.0..1.0f64),
        radius in 1.0..100_000.0f64,
    ) {
        let middle = Position { longitude: middle.0, latitude: middle.1 };
        let degree = radius / 111_000.0;
        let own = Position {
            longitude: middle.longitude + east * degree,
            latitude: middle.latitude + north * degree,
        };
        let shape = Shape::Circle(radius);
        prop_assume!(shape.distance(middle, own).is_some());
        let score = own.score();
        let ranges = shape.ranges(middle);
        prop_assert!(ranges.iter().any(|(from, to)| (*from..*to).contains(&score)));
    }

    #[test]
    fn any_score_is_a_position(score: f64) {
        prop_assert!(Position::of_score(score).is_valid());
    }
}

#[test]
fn the_example_of_redis() {
    let palermo = Position { longitude: 13.361389, latitude: 38.115556 };
    let catania = Position { longitude: 15.087269, latitude: 37.502669 };
    assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
    let [palermo, catania] = [palermo, catania].map(|own| Position::of_score(own.score()));
    assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
    assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
    assert_eq!(&catania.geohash(), b"sqdtr74hyu0");
}
