r"""The colors of explorables, readable on light and dark ground."""

#: Okabe and Ito's palette, darkened where needed for 3:1 on white; `static/player.js` holds each color's dark twin.
COLORS = {
    "blue": "#0072b2",
    "orange": "#c45500",
    "green": "#00805a",
    "purple": "#a8468a",
    "sky": "#2a8fc9",
    "red": "#c0392b",
    "yellow": "#a07800",
    "gray": "#6b7280",
    "ink": "#1f2933",
}
SEQUENTIAL = "Cividis"
#: From blue over a middle gray to orange; zero must be the middle (`zmid=0`).
DIVERGING = [[0.0, "#2166ac"], [0.25, "#7fb0d5"], [0.5, "#f2f2f2"], [0.75, "#e3a36b"], [1.0, "#b35806"]]
