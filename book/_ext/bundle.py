r"""One style sheet, one script and a few small fonts for the whole site, made from what the theme and Sphinx bring.

The stock pages load twelve style sheets and seventeen scripts, most of it for parts that this book does not have. This
extension leaves the theme's files as they are and works on what the build wrote:

- `book.css` holds the rules of all style sheets that can match something on some page, and the text face;
- `math.css` holds the math font, cut down to the characters in the book's formulas; only pages with a formula load it;
- `book.js` holds the scripts one behind the other, loaded with `defer`; book/_static/site.js stands in for the theme's.
  The search page alone loads what it searches.

Fonts stand inside the style sheets: nothing shifts when they arrive, and a browser that opens the book from disk, where
some refuse font files, has them too.
"""

import base64
import hashlib
import html
import io
import logging
import posixpath
import re
import shutil
from pathlib import Path

import tinycss2
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.builders.html import _CascadingStyleSheet, _JavaScript

ROOT = Path(__file__).resolve().parents[2]
STIX = ROOT / "book" / "_vendor" / "stix" / "STIXTwoMath.woff2"
TEXT = {  # (style, weight): the face, without kerning: its table would weigh an eighth more
    ("normal", 400): STIX.with_name("STIXTwoText.woff2"),
    ("italic", 400): STIX.with_name("STIXTwoText-Italic.woff2"),
    ("normal", 600): STIX.with_name("STIXTwoText-SemiBold.woff2"),
}
PRIMES = ROOT / "book" / "_vendor" / "temml" / "Temml.woff2"  # made to be raised; those of STIX are small

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells each table it drops

THEME_STYLES = ["basic.css", "styles/pydata-sphinx-theme.css"]
OWN_STYLES = ["explore/player.css", "posenc.css", "predict.css"]  # kept whole
SCRIPTS = ["documentation_options.js", "doctools.js", "clipboard.min.js", "copybutton.js", "site.js", "predict.js"]
SEARCH = ["_static/minisearch.js", "_static/sections.js", "_static/search.js"]  # in place of Sphinx's
LEFT_OVER = ["styles", "scripts", "vendor", "locales", "images", "*.css", "*.png", "*.html", "*-button.svg"]
LEFT_OVER += ["*-solid.svg", "copybutton_funcs.js", "design-tabs.js", "searchtools.js", "language_data.js"]
LEFT_OVER += ["sphinx_highlight.js"]

# Runs before the page is drawn, so that a reader who chose dark never sees a light page. It is the one inline script;
# the content policy names its hash. Browsers may refuse storage to pages opened from disk.
FIRST_SCRIPT = """(function (root) {
  var mode;
  try { mode = localStorage.getItem("mode"); } catch (error) {}
  if (mode !== "light" && mode !== "dark") mode = "auto";
  root.dataset.mode = mode;
  root.dataset.theme = mode !== "auto" ? mode : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
})(document.documentElement);"""
# Inline styles stay: plotly and the highlighter write them.
POLICY = (
    "default-src 'self'; "
    f"script-src 'self' 'sha256-{base64.b64encode(hashlib.sha256(FIRST_SCRIPT.encode()).digest()).decode()}'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'"
)


# --- the links on each page ------------------------------------------------------------------------------------------


def link(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Have a page link the bundles in place of everything that themes and extensions asked for."""
    body = context.get("body") or ""
    player = [file for file in context["script_files"] if "explore/" in str(file.filename)]
    search = SEARCH if pagename == "search" else []
    styles = ["book.css", "math.css"] if "<math" in body else ["book.css"]
    context["css_files"] = [_CascadingStyleSheet(f"_static/{name}") for name in styles]
    context["script_files"] = [_JavaScript("_static/book.js", defer="defer")]
    context["script_files"] += [_JavaScript(name, defer="defer") for name in search] + player
    context["first_script"] = FIRST_SCRIPT
    policy = f'\n    <meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    context["metatags"] = policy + context.get("metatags", "")


# --- style sheets ----------------------------------------------------------------------------------------------------


def selector_matches(selector: str, used: set[str]) -> bool:
    r"""Whether every class, id and element that a selector names is somewhere in the book.

    What stands inside `:not(...)` and its kin, and attributes, are not looked at: in doubt a rule stays.
    """
    while (less := re.sub(r":[\w-]+\([^()]*\)|\[[^\]]*\]", "", selector)) != selector:
        selector = less
    return used.issuperset(re.findall(r"[.#]?[A-Za-z_][\w-]*", re.sub(r"::?[\w-]+", "", selector)))


def split_commas(tokens: list) -> list[str]:
    r"""The selectors of a list, as text."""
    groups = [[]]
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    return [tinycss2.serialize(group).strip() for group in groups]


def compact(text: str) -> str:
    return re.sub(r"\s*([{};,>])\s*", r"\1", re.sub(r"\s+", " ", text)).replace(";}", "}").strip()


def purge(rules: list, used: set[str]) -> str:
    r"""The rules that can match something, as text."""
    kept = []
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = [part for part in split_commas(rule.prelude) if selector_matches(part, used)]
            body = tinycss2.serialize([token for token in rule.content if token.type != "comment"])
            if selectors and body.strip():
                kept.append(",".join(selectors) + "{" + body.strip() + "}")
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports", "layer", "container"):
            inside = purge(tinycss2.parse_rule_list(rule.content or [], True, True), used)
            if inside:
                kept.append(f"@{rule.at_keyword} {tinycss2.serialize(rule.prelude).strip()}{{{inside}}}")
        elif rule.type == "at-rule" and rule.lower_at_keyword not in ("font-face", "import", "charset"):
            kept.append(rule.serialize())
    return compact("".join(kept))


THEMED = re.compile(r"""\[data-theme=["']?(light|dark)["']?\]""")


def for_paper_and_without_script(css: str) -> str:
    r"""Rules of a theme for those whom no script tells their theme, too.

    A page without a script keeps `data-theme="auto"`: there the system's preference decides. Paper is light, whatever
    the screen shows.
    """
    out = []

    def add(media: str, selectors: list[str], body: str) -> None:
        rule = ",".join(selectors) + "{" + body + "}"
        if selectors:
            out.append(f"@media {media}{{{rule}}}" if media else rule)

    for rule in tinycss2.parse_stylesheet(css, True, True):
        if rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inside = for_paper_and_without_script(tinycss2.serialize(rule.content))
            out.append(f"@{rule.at_keyword} {tinycss2.serialize(rule.prelude).strip()}{{{inside}}}")
        elif rule.type != "qualified-rule" or not THEMED.search(tinycss2.serialize(rule.prelude)):
            out.append(rule.serialize())
        else:
            body = tinycss2.serialize(rule.content).strip()
            selectors = split_commas(rule.prelude)
            themes = [found[1] if (found := THEMED.search(selector)) else "" for selector in selectors]
            light, dark = ([s for s, theme in zip(selectors, themes) if theme == name] for name in ("light", "dark"))
            add("", [s for s, theme in zip(selectors, themes) if theme != "dark"], body)
            add("screen", dark, body)
            for theme, group in (("light", light), ("dark", dark)):
                undecided = [THEMED.sub("[data-theme=auto]", selector) for selector in group]
                add(f"screen and (prefers-color-scheme:{theme})", undecided, body)
            add("print", [THEMED.sub("[data-theme]", selector) for selector in light], body)
    return "".join(out)


def drop_unused_variables(css: str, scripts: str) -> str:
    r"""Without the custom properties that nothing reads; a property may be read by another, hence the loop."""
    declared = r"(?<=[{;])(--[\w-]+):[^;{}]*(?:;|(?=}))"
    while True:
        read = set(re.findall(r"var\(\s*(--[\w-]+)", css)) | set(re.findall(r"--[\w-]+", scripts))
        less = re.sub(declared, lambda found, read=read: found[0] if found[1] in read else "", css)
        if less == css:
            return re.sub(r"[^{};]+\{\}", "", css)
        css = less


def names_in(pages: list[str], scripts: str) -> set[str]:
    r"""Every `.class`, `#id` and element name in the pages, and every word that a script could use as one."""
    used = {"html", "body", "from", "to"}
    for page in pages:
        used.update(tag.lower() for tag in re.findall(r"<([a-zA-Z][\w-]*)", page))
        for value in re.findall(r'\bclass="([^"]*)"', page):
            used.update("." + name for name in html.unescape(value).split())
        used.update("#" + name for name in re.findall(r'\bid="([^"]*)"', page))
    for word in re.findall(r"[A-Za-z_][\w-]*", scripts):
        used.update((f".{word}", f"#{word}"))
    return used


def bare(script: str) -> str:
    r"""A script without indentation and comments; licenses, which begin with `/*!`, stay, and what might be text."""
    script = re.sub(r"^[ \t]*/\*(?!!).*?\*/[ \t]*\n", "", script, flags=re.DOTALL | re.MULTILINE)
    script = re.sub(r"(?<=[;{},)]) +// [^\"'`\n]*$", "", script, flags=re.MULTILINE)
    return re.sub(r"^[ \t]*(?:(?://.*)?\n)?", "", script, flags=re.MULTILINE)


# --- fonts -----------------------------------------------------------------------------------------------------------


def cut_font(source: Path, characters: set[str]) -> str:
    r"""A font with these characters only, as a data URI; what the MATH table needs of them comes along."""
    options = subset.Options(flavor="woff2", layout_features=(), hinting=False, notdef_outline=True)
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=sorted(map(ord, characters)))
    cutter.subset(font)
    out = io.BytesIO()
    font.recalcTimestamp = False
    font.flavor = "woff2"
    font.save(out)
    return "data:font/woff2;base64," + base64.b64encode(out.getvalue()).decode()


FACE = '@font-face{{font-family:{};font-style:{};font-weight:{};src:url({}) format("woff2")}}'


def text_faces(pages: list[str]) -> str:
    r"""The face of the text, with the characters that stand in some page outside code and formulas."""
    shown = {" "}
    for page in pages:
        prose = re.sub(r"<(script|style|math|svg|pre|code)\b.*?</\1>", " ", page, flags=re.DOTALL)
        shown.update(html.unescape(re.sub(r"<[^>]+>", "", prose)))
    printed = {character for character in shown if not character.isspace()} | {" ", "\u00a0"}
    return "".join(
        FACE.format("posenc-text", style, weight, cut_font(path, printed)) for (style, weight), path in TEXT.items()
    )


def math_characters(pages: list[str]) -> set[str]:
    r"""The characters in the pages' formulas, with the letters and signs that browsers put of their own accord; without
    upright Latin letters and digits, which the text face has in the same shapes."""
    shown = set()
    for page in pages:
        for formula in re.findall(r"<math.*?</math>", page, re.DOTALL):
            shown.update(html.unescape(re.sub(r"<[^>]+>", "", formula)))
            if "<msqrt" in formula or "<mroot" in formula:
                shown.add("√")
    italic = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", map(chr, range(0x1D434, 0x1D468))))
    italic["h"] = "\u210e"
    for start, first in ((0x391, 0x1D6E2), (0x3B1, 0x1D6FC)):
        italic.update({chr(start + i): chr(first + i) for i in range(25)})
    italic.update({"ϵ": "𝜖", "ϑ": "𝜗", "ϰ": "𝜘", "ϕ": "𝜙", "ϱ": "𝜚", "ϖ": "𝜛", "∂": "𝜕"})
    shown |= {italic[c] for c in shown if c in italic}
    return {c for c in shown if not c.isspace() and not re.fullmatch("[A-Za-z0-9]", c)} | {" "}


# --- the address without a page --------------------------------------------------------------------------------------


def moved_up(page: str, folder: str) -> str:
    r"""A page of `folder` as it must stand at the site's root: relative addresses follow."""

    def follow(found: re.Match) -> str:
        before, address, after = found.groups()
        if re.match(r"[a-z]+:|#|$", address):
            return found[0]
        path, mark, rest = re.match(r"([^?#]*)([?#]?)(.*)", address).groups()
        return f"{before}{posixpath.normpath(posixpath.join(folder, path))}{mark}{rest}{after}"

    page = re.sub(r'data-content_root="[./]*"', 'data-content_root="./"', page)
    return re.sub(r'(\s(?:href|src|action)=")([^"]*)(")', follow, page)


# --- the bundles -----------------------------------------------------------------------------------------------------


def finish(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    if not (static / SCRIPTS[0]).exists():  # no page has changed: Sphinx copied no script, and the last bundles stand
        clear(static)
        return
    pages = [path.read_text("utf-8") for path in out.glob("**/*.html") if static not in path.parents]

    def read(name: str) -> str:
        return (static / name).read_text("utf-8")

    # "/" would be a key of its own, which nobody could switch off; Ctrl+K opens the search.
    options = read(SCRIPTS[0]).replace("ENABLE_SEARCH_SHORTCUTS: true", "ENABLE_SEARCH_SHORTCUTS: false")
    (static / SCRIPTS[0]).write_text(options, "utf-8")
    scripts = bare(";\n".join(re.sub(r"\n?//# sourceMappingURL=.*", "", read(name)) for name in SCRIPTS))
    live = sorted((static / "explore" / "live").glob("*.js"))
    player = read("explore/player.js") + "".join(path.read_text("utf-8") for path in live)
    asked = [str(file.filename).removeprefix("_static/") for file in app.builder._css_files]
    names = list(dict.fromkeys(THEME_STYLES + [name for name in asked if (static / name).exists()]))
    sheets = {name: read(name) for name in names if name not in OWN_STYLES and name != "styles/theme.css"}
    used = names_in(pages, scripts + player)
    home = f"{app.config.root_doc}.html"
    first = moved_up((out / home).read_text("utf-8"), posixpath.dirname(home))
    (out / "index.html").write_text(first, "utf-8")
    css = purge(tinycss2.parse_stylesheet("\n".join(sheets.values()), True, True), used)
    css += compact(re.sub(r"/\*.*?\*/", "", "".join(map(read, OWN_STYLES)), flags=re.DOTALL))
    css = drop_unused_variables(for_paper_and_without_script(css), scripts + player + "".join(pages))

    webfonts = static / "vendor" / "fontawesome" / "webfonts"
    icons = set(re.findall("[\ue000-\uf8ff]", css))  # the private-use characters in the rules that stayed
    icon_font = cut_font(webfonts / "fa-solid-900.woff2", icons)
    css += FACE.format('"Font Awesome 6 Free"', "normal", 900, icon_font) + text_faces(pages)
    (static / "book.css").write_text(css, "utf-8")
    (static / "book.js").write_text(scripts, "utf-8")
    fonts = {"posenc-math": (STIX, math_characters(pages)), "posenc-primes": (PRIMES, set("′″‴"))}
    faces = [FACE.format(name, "normal", 400, cut_font(*font)) for name, font in fonts.items()]
    (static / "math.css").write_text("".join(faces), "utf-8")

    clear(static)


def clear(static: Path) -> None:
    r"""Take away what the bundles hold. The theme writes its code colors at the end of every build, changed or not."""
    keep = {"book.css", "math.css", "noscript.css", "screenshot.png", "file.png"}
    for pattern in LEFT_OVER:
        for path in static.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in keep:
                path.unlink()
    for name in SCRIPTS:
        (static / name).unlink(missing_ok=True)


def digest() -> str:
    r"""Of what every page is dressed in. Sphinx writes all pages anew when it changes."""
    out = hashlib.sha256()
    folders = ("book/_ext/**/*", "book/_static/*", "posenc/lab/explore/static/*", "book/*/*.js")
    for path in sorted(path for folder in folders for path in ROOT.glob(folder)):
        if path.suffix in (".py", ".js", ".css", ".html"):
            out.update(path.read_bytes())
    return out.hexdigest()


def setup(app: Sphinx) -> None:
    app.add_config_value("bundle_digest", digest(), "html")
    app.connect("html-page-context", link, priority=900)
    app.connect("build-finished", finish, priority=900)
