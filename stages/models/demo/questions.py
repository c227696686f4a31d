"""The wording of the built-in questions: templates, invented towns, and how a text is read back."""

import re
from typing import Final

_NAMED_KINDS = "car|bus|truck|cat|dog|bird|fish|chest|bench|tree|lamp|ball"

TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "sport": (
        "Which game is played with the ball in this picture from {town}?",
        "The club of {town} was founded around this ball. Which sport does the club practise?",
        "What sport would the children of {town} play with this ball?",
        "A shop in {town} sells the ball shown here. For which sport is it made?",
        "For which game did the visitor from {town} bring this ball?",
        "Judging by the ball, which sport is popular in {town}?",
    ),
    "season": (
        "In which season was this picture of {town} taken?",
        "What time of the year is it in {town}?",
        "A postcard from {town} shows this view. Which season does it show?",
        "Which season would a visitor find in {town} when it looks like this?",
        "The calendar of {town} uses this picture. To which season does it belong?",
        "Which of the four seasons is it in this garden in {town}?",
    ),
    "ripe": (
        "Is the apple from the orchard of {town} ripe?",
        "A farmer in {town} wants to pick this apple. Is it ripe?",
        "Would the apple shown at the market of {town} taste ripe today?",
        "Can the apple in this picture from {town} be called ripe?",
        "The school of {town} was given this apple. Is it ripe enough to eat?",
        "Is this apple, grown near {town}, ready to be picked?",
    ),
    "pet": (
        "What kind of pet lives in this home in {town}?",
        "A family from {town} took this picture. Which pet do they keep?",
        "Which animal should the vet of {town} expect from this household?",
        "The pet shop of {town} sold an animal to this house. Which animal was it?",
        "What pet would a guest meet at this place in {town}?",
        "Which kind of animal is being looked after here in {town}?",
    ),
    "stop": (
        "We are approaching a crossing in {town}. Does the ego vehicle have to stop?",
        "Must the ego vehicle stop at this junction in {town}?",
        "Is there a reason for the ego vehicle to stop on this street in {town}?",
        "On the way through {town}: does the car that we drive need to stop here?",
        "Should the driver brake to a stop at this point in {town}?",
        "At this spot in {town}, is the ego vehicle required to stop?",
    ),
    "go": (
        "May the ego vehicle drive on at this crossing in {town}?",
        "Is it safe for the ego vehicle to go ahead here in {town}?",
        "Can the ego vehicle keep going along this street in {town}?",
        "On the way through {town}: is the car that we drive allowed to proceed?",
        "Is the way free, so that the driver can continue through {town}?",
        "At this point in {town}, can the ego vehicle carry on without waiting?",
    ),
    "turn": (
        "Which way does the ego vehicle have to turn at this corner in {town}?",
        "To follow the signed route to {town}, in which direction should the driver turn?",
        "Where does the diversion around {town} lead, left or right?",
        "In which direction must the ego vehicle steer to reach {town}?",
        "The road to {town} splits here. Which side does the signed route take?",
        "Which direction is signed for traffic bound for {town}?",
    ),
    "ahead": (
        "What type of vehicle is ahead of the ego vehicle in {town}?",
        "Which kind of vehicle does the ego vehicle follow through {town}?",
        "On this street in {town}, what sort of vehicle is in front of us?",
        "Behind which type of vehicle is the ego vehicle driving in {town}?",
        "Which vehicle should the driver keep a distance to on this road in {town}?",
        "What vehicle shares the road to {town} with the ego vehicle?",
    ),
    "same_direction": (
        "Do the {a} and the {b} in {town} face the same direction?",
        "In this scene from {town}, are the {a} and the {b} facing the same way?",
        "Seen in {town}: do the {a} and the {b} look the same way?",
        "Are the {a} and the {b} in this picture of {town} oriented alike?",
        "Would the {a} and the {b} from {town} move in the same direction if both went forward?",
        "Is the {a} in {town} pointing to the same side as the {b}?",
    ),
    "facing": (
        "Which way is the {a} in {town} facing, left or right?",
        "In this scene from {town}, to which side does the {a} face?",
        "Towards which edge of this picture of {town} is the {a} turned?",
        "If the {a} from {town} went straight forward, to which side of the image would it go?",
        "Does the {a} in this picture of {town} look towards the left or towards the right?",
        "To which side of the view of {town} is the {a} looking?",
    ),
    "left_of": (
        "What is directly to the left of the {a} in this scene from {town}?",
        "Which object stands immediately left of the {a} in {town}?",
        "In this picture of {town}, what is placed right next to the {a}, on its left?",
        "Looking at {town}: what is the nearest thing to the left of the {a}?",
        "What would one reach first going left from the {a} in {town}?",
        "Which thing is the left neighbour of the {a} in {town}?",
    ),
    "colour": ("What colour is the {a} in {town}?",),
}
"""Family → templates. ``{a}`` and ``{b}`` are the kinds that a question names."""

# fmt: off
TOWNS: Final = (
    "Aldmoor", "Birkvale", "Corrow", "Dunhollow", "Elverby", "Fernwick", "Garrowby",
    "Hazelmere", "Ivenbridge", "Jorsley", "Kestrow", "Larchfield", "Merrowdale", "Norbeck",
    "Oakhurst", "Pellworth", "Quillam", "Rushmoor", "Sallowby", "Tarnley", "Ulverdale",
    "Venbrook", "Wexhollow", "Yarrowby", "Zennick", "Ashcombe", "Brindley", "Calderwick",
    "Dovemere", "Eskby", "Farrowdale", "Glenmarsh", "Harkstead", "Isenford", "Junipham",
    "Kirkwold", "Lindmere", "Mossgrave", "Nethercot", "Ottermouth", "Pinegarth",
)
# fmt: on
"""Invented towns; their number is a prime, see `write`."""


def _pattern(template: str) -> re.Pattern[str]:
    words = re.escape(template)
    words = words.replace(re.escape("{town}"), "[A-Z][a-z]+")
    for name in "ab":
        words = words.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>{_NAMED_KINDS})")
    return re.compile(words.replace(r"\ ", r"\s+"))


_PATTERNS: Final = tuple(
    (family, _pattern(template)) for family, all_ in TEMPLATES.items() for template in all_
)


def write(family: str, index: int, kinds: tuple[str, ...]) -> str:
    """Write the index-th question of a family about the given kinds.

    Neighbouring indices get different templates and different towns. No pair comes twice because
    the number of towns is a prime above the number of templates plus one.
    """
    templates = TEMPLATES[family]
    turn = index // len(templates)
    town = TOWNS[(index + turn) % len(TOWNS)]
    return templates[index % len(templates)].format(
        town=town, **dict(zip("ab", kinds, strict=False))
    )


def find(text: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Find the first built-in question in a text: its family, its own words, the kinds it names."""
    for family, pattern in _PATTERNS:
        if match := pattern.search(text):
            return family, " ".join(match[0].split()), tuple(match.groupdict().values())
    return None
