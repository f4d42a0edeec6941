//! The articles of the sample site: about things that keep.

/// One article.
pub(super) struct Article {
    pub(super) slug: &'static str,
    pub(super) title: &'static str,
    pub(super) sign: &'static str,
    pub(super) lead: &'static str,
    pub(super) text: &'static [&'static str],
}

const fn article(
    slug: &'static str,
    title: &'static str,
    sign: &'static str,
    lead: &'static str,
    text: &'static [&'static str],
) -> Article {
    Article { slug, title, sign, lead, text }
}

/// In the order of the list.
pub(super) const ARTICLES: &[Article] = &[
    article(
        "sourdough",
        "Sourdough",
        "🍞",
        "Flour, water, and patience.",
        &[
            "A starter is a small herd of wild yeasts and lactic acid bacteria. Fed every day \
             with flour and water it lives for generations; forgotten in the fridge it sleeps for \
             weeks and wakes after two meals.",
            "The acid does more than taste: it slows mould, so that a sour loaf keeps for a week \
             where a yeasted one is stale in two days.",
        ],
    ),
    article(
        "kimchi",
        "Kimchi",
        "🥬",
        "Cabbage that gets livelier by the week.",
        &[
            "Napa cabbage is salted, rinsed and rubbed with chilli, garlic, ginger and fish \
             sauce. In the jar, lactic acid bacteria take over within days.",
            "In Korea families made a winter's worth at once, in late autumn, and buried the \
             jars: the ground keeps just above freezing all season.",
        ],
    ),
    article(
        "jam",
        "Jam",
        "🍓",
        "Fruit, sugar, and the right moment.",
        &[
            "Sugar binds the water that moulds would need; pectin and acid set the rest into a \
             gel at about 105 °C.",
            "The old test still holds: a drop on a cold plate. If it wrinkles when pushed, the \
             pot comes off the fire.",
        ],
    ),
    article(
        "salt-cod",
        "Salt cod",
        "🐟",
        "The fish that crossed oceans.",
        &[
            "Split, salted and dried, cod keeps for years without cold. Basque and Portuguese \
             ships brought it home from Newfoundland from the sixteenth century on.",
            "Before cooking it lies in fresh water for a day or two, changed several times, until \
             it is fish again.",
        ],
    ),
    article(
        "confit",
        "Confit",
        "🦆",
        "Sealed under its own fat.",
        &[
            "Duck legs are salted overnight, cooked slowly in fat and stored in it. Without air, \
             and after such cooking, little can spoil.",
            "A crock in a cool cellar lasts from autumn to spring. The potatoes fried in the fat \
             are half of the reason to make it.",
        ],
    ),
    article(
        "miso",
        "Miso",
        "🫘",
        "Soybeans with a long memory.",
        &[
            "Steamed soybeans, salt and koji, grain on which a mould has grown, are packed under \
             a weight. White miso is ready in weeks, red takes a year or three.",
            "Unpasteurised it is alive, and goes on changing in the fridge, slowly, for as long \
             as it lasts.",
        ],
    ),
    article(
        "pickles",
        "Pickled cucumbers",
        "🥒",
        "Brine or vinegar: two ways to sour.",
        &[
            "In brine, bacteria make the acid in two weeks. In vinegar it is there from the first \
             minute, which is quicker and duller.",
            "A vine leaf in the jar keeps them crisp: its tannins slow the enzymes that soften \
             them.",
        ],
    ),
    article(
        "honey",
        "Honey",
        "🍯",
        "The food that does not spoil.",
        &[
            "With less than a fifth of water, and sour besides, honey gives microbes nothing to \
             live on. Sealed well it keeps for decades.",
            "It may set into crystals. Warm water brings it back; boiling water takes the scent \
             with it.",
        ],
    ),
    article(
        "parmesan",
        "Parmesan",
        "🧀",
        "A wheel of two years.",
        &[
            "Some 550 litres of milk make one wheel, which rests in brine for three weeks and \
             then on a shelf for at least a year.",
            "The white grains in it are crystals of amino acids, a sign of age and not of salt.",
        ],
    ),
    article(
        "ham",
        "Air-dried ham",
        "🍖",
        "Salt first, then wind.",
        &[
            "A leg takes up salt for a few weeks in the cold, then hangs where the air moves. \
             Over a year it loses a third of its weight.",
            "What happens inside is the work of the meat's own enzymes. The curer's art is to \
             give them time and nothing else a chance.",
        ],
    ),
    article(
        "sauerkraut",
        "Sauerkraut",
        "🥗",
        "Two ingredients, no vinegar.",
        &[
            "Two parts of salt to a hundred of cabbage, pressed until it stands in its own juice. \
             The rest is done by what was on the leaves.",
            "James Cook took tons of it to sea and lost hardly a sailor to scurvy.",
        ],
    ),
    article(
        "marmalade",
        "Marmalade",
        "🍊",
        "Bitter oranges, one month a year.",
        &[
            "Seville oranges are in season in January. Their pips and pith are tied in a cloth \
             and boiled along, for the pectin.",
            "It improves for months. Those who open the first jar at Easter have waited about \
             long enough.",
        ],
    ),
    article(
        "stockfish",
        "Stockfish",
        "🌬️",
        "Dried by nothing but air.",
        &[
            "On wooden racks by the Norwegian sea cod dries from February to May, in air too cold \
             for flies and not cold enough to freeze it through.",
            "It needs no salt and keeps for years. Egil's saga already tells of it as cargo.",
        ],
    ),
    article(
        "tomatoes",
        "Dried tomatoes",
        "🍅",
        "Summer at a tenth of its weight.",
        &[
            "Halved, salted, three days in the sun. What is left is sweet, salty and sour all at \
             once.",
            "Under oil they soften. Dry they keep longer, and an hour in warm water does the same.",
        ],
    ),
    article(
        "garum",
        "Garum",
        "🏺",
        "Rome's favourite sauce.",
        &[
            "Small fish and salt, left in the sun for some months. The clear liquid drawn off was \
             shipped in amphorae all over the empire.",
            "Its nearest living relatives are the fish sauces of southeast Asia, made in the same \
             way.",
        ],
    ),
    article(
        "pemmican",
        "Pemmican",
        "🥩",
        "A journey's worth in a bag.",
        &[
            "Dried bison pounded to powder, mixed with as much melted fat and some dried berries. \
             Plains peoples of North America made it, and the fur trade ran on it.",
            "Packed in rawhide it kept for years, and half a kilogram was a hard day's food.",
        ],
    ),
    article(
        "vinegar",
        "Vinegar",
        "🍷",
        "Wine's second life.",
        &[
            "Where air reaches wine, acetic bacteria grow a skin on it and turn its alcohol to \
             acid. The skin is called the mother.",
            "It makes other things keep, and needs no keeping itself.",
        ],
    ),
    article(
        "tea",
        "Pu-erh tea",
        "🍵",
        "Leaves that get better for decades.",
        &[
            "Pressed into cakes and stored with some humidity, pu-erh goes on fermenting. Young \
             it is sharp, at thirty it tastes of wood and earth.",
            "Cakes carry the year they were pressed, and cost accordingly.",
        ],
    ),
    article(
        "eggs",
        "Century eggs",
        "🥚",
        "A month, not a century.",
        &[
            "Ducks' eggs in a coat of lime, ash and salt: the lye works through the shell, the \
             white turns to amber jelly and the yolk to dark cream.",
            "At the end the egg is so alkaline that nothing wants to live in it.",
        ],
    ),
    article(
        "hardtack",
        "Hardtack",
        "🍪",
        "The cracker that outlives its sailors.",
        &[
            "Flour and water, baked until no water is left, then baked again. Dry, it keeps for \
             years; some pieces of the nineteenth century lie in museums.",
            "It was eaten soaked. Tapping it on the table first was done for the weevils.",
        ],
    ),
];
