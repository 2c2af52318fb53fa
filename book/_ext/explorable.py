r"""The `explorable` directive: a figure with sliders that works without a kernel and without a network.

    ```{explorable} rope.rotation_invariance
    ```

evaluates `rotation_invariance` of book/rope/figures.py at every state when the page is read, writes the states to
`_static/explore/` beside the player, and puts the committed picture where the plot will be. Its label is
`fig-rope-rotation-invariance`; `:name:` gives it another.

Each figure also gets a page of its own, `embed/rope.rotation_invariance.html`, to send, and for frames on other sites:
the same figure and player, no theme, relative paths only. Its content policy and its one inline script are those of the
book's pages (bundle.py). Shared links to it show the picture of its name in `_static/cards`.
"""

import re
import shutil
from pathlib import Path

import jinja2
from bundle import FIRST_SCRIPT, POLICY, bare
from docutils import nodes
from execution import short
from site_parts import PICTURE, shortened, sign, site_address
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
EMBED = Path(__file__).parent / "templates" / "embed.html"
PLAYER = ("player.js", "player.css", "plotly-cartesian.min.js")


def legend(see: str, alt: str, id: str) -> nodes.legend:
    r"""What to do and to watch, in a line that answers no question that stands before the figure; and its own page."""
    from posenc.lab.explore.page import legend_html

    alone = f'<a class="explorable-embed" href="posenc-embed/{id}.html">This figure alone</a>'
    return nodes.legend("", nodes.raw("", legend_html(see, alt) + alone, format="html"))


class ExplorableDirective(SphinxDirective):
    required_arguments = 1
    option_spec = {"name": str}

    def run(self) -> list[nodes.Node]:
        from posenc.chapters import load

        try:
            shown = load(self.arguments[0])
            script = states(shown, self.config).read_text("utf-8")
        except (ValueError, TypeError, RuntimeError) as error:
            raise self.error(str(error)) from error
        if not shown.picture().exists():
            logger.warning("%s has no picture: run `make pictures`", shown.id, location=self.get_location())
        name = f"{shown.id}.{short(script)[:10]}.data.js"
        prefix = f"explorable-{shown.id.replace('.', '-')}-{self.env.new_serialno('explorable')}"
        figure = nodes.figure(classes=["explorable"], shows=shown.id)
        self.set_source_info(figure)
        body = shown.body_html(prefix, f"posenc-static/figures/{shown.id}.svg")
        body = body.replace('<div class="explorable-body"', f'<div class="explorable-body" data-src="{name}"', 1)
        figure += nodes.raw("", body, format="html")
        figure += nodes.caption("", "", nodes.Text(shown.title))
        figure += legend(shown.see, shown.alt, shown.id)
        self.options.setdefault("name", f"fig-{shown.id}".replace(".", "-").replace("_", "-"))
        self.add_name(figure)
        embedded = {"id": shown.id, "anchor": figure["ids"][0], "title": shown.title, "body": body}
        embedded |= {"see": shown.see, "alt": shown.alt}
        self.env.metadata[self.env.docname].setdefault("explorables", {})[name] = embedded
        return [figure]


class LiveDirective(SphinxDirective):
    r"""`{live} <name>`: a figure of a chapter, which a script of its own draws. Its label is `fig-<name>`, or `:name:`.
    Words after the name go to its `data` and `picture`: `{live} draw_loss alibi`, whose label is `fig-draw-loss-alibi`.
    """

    required_arguments = 1
    optional_arguments = 1
    option_spec = {"name": str}

    def run(self) -> list[nodes.Node]:
        from posenc.chapters import load_live
        from posenc.lab.explore.page import script_json

        for pattern in ("posenc/**/*.py", "book/[a-z]*/[!t]*.[pch]*", "results/*.json"):
            for path in ROOT.glob(pattern):
                self.env.note_dependency(str(path))
        name, *more = self.arguments
        try:
            shown = load_live(name)
            picture, data = shown.picture(*more), shown.data(*more)
            said = (shown.TITLE, shown.SEE, shown.ALT)
            title, see, alt = (t[more[0]] if isinstance(t, dict) else t for t in said)
        except ValueError as error:
            raise self.error(str(error)) from error
        figure = nodes.figure(classes=["live"], shows=name)
        self.set_source_info(figure)
        eager = " data-eager" if getattr(shown, "EAGER", False) else ""
        body = f'<div data-live="{name}"{eager}><div class="live-still">{picture}</div><div class="live-place"></div>'
        body += f'<script type="application/json" class="live-data">{script_json(data)}</script></div>'
        figure += nodes.raw("", body, format="html")
        figure += nodes.caption("", "", nodes.Text(title))
        id = ".".join(self.arguments)
        figure += legend(see, alt, id)
        self.options.setdefault("name", f"fig-{id}".replace(".", "-").replace("_", "-"))
        self.add_name(figure)
        embedded = dict(id=id, anchor=figure["ids"][0], title=title, see=see, alt=alt, body=body, script=name)
        self.env.metadata[self.env.docname].setdefault("live", {})[id] = embedded
        return [figure]


def states(shown, config) -> Path:
    r"""The script with every state, where execution.py has left it; computed here where that failed."""
    path = Path(config.nb_execution_cache_path) / f"{shown.id}.data.js"
    if not path.exists():
        path.write_text(shown.data_js(), "utf-8")
    return path


def all_figures(env) -> dict[str, dict]:
    r"""{page: {data file: what the page to embed needs}}"""
    return {name: page["explorables"] for name, page in env.metadata.items() if "explorables" in page}


def add_player(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Give pages that show an explorable (by the directive, or in a cell's output) the player, and only those."""
    body = context.get("body") or ""
    if "data-explorable=" not in body and "data-live=" not in body:
        return
    for mark, folder in (("posenc-static/", "_static/"), ("posenc-embed/", "embed/")):
        body = body.replace(mark, context["pathto"](folder, resource=True))
    context["body"] = body
    app.add_js_file("explore/player.js", loading_method="defer", priority=600)
    for name in re.findall(r'data-live="(\w+)" data-eager', body):
        app.add_js_file(f"explore/live/{name}.js", loading_method="defer", priority=601)
    app.add_css_file("explore/player.css")


def write_files(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir) / "_static" / "explore"
    wanted = {name: shown["id"] for files in all_figures(app.env).values() for name, shown in files.items()}
    for stale in out.glob("*.data.js"):
        if stale.name not in wanted:
            stale.unlink()
    for name, id in wanted.items():
        if not (out / name).exists():
            shutil.copyfile(Path(app.config.nb_execution_cache_path) / f"{id}.data.js", out / name)
    write_embeds(app, Path(app.outdir))


def write_embeds(app: Sphinx, out: Path) -> None:
    r"""Write `embed/<id>.html` for each figure, and delete those of figures that are gone."""
    folder = out / "embed"
    folder.mkdir(exist_ok=True)
    static = out / "_static" / "explore"
    version = {kind: short((static / f"player.{kind}").read_bytes())[:10] for kind in ("js", "css")}
    template = jinja2.Template(EMBED.read_text("utf-8"), autoescape=True, keep_trailing_newline=True)
    wanted = {}
    for page in sorted(app.env.metadata, reverse=True):  # the clock's is the first of its two
        figures = app.env.metadata[page].get("explorables", {}) | app.env.metadata[page].get("live", {})
        wanted |= {shown["id"]: (page, shown) for shown in figures.values()}
    for path in folder.glob("*.html"):
        if path.stem not in wanted:
            path.unlink()
    for id, (page, shown) in wanted.items():
        card = f"_static/cards/{id}.png"
        words = {
            "said": shortened(shown["alt"]),
            "address": f"{site_address()}embed/{id}.html",
            "card": site_address() + (card if (out / card).exists() else PICTURE),
            "script": shown.get("script"),
            "language": app.config.language,
            "policy": POLICY,
            "first_script": FIRST_SCRIPT,
            "title": shown["title"],
            "alt": shown["alt"],
            "see": shown["see"],
            "body": shown["body"].replace("posenc-static/", "../_static/"),
            "source": f"{app.builder.get_target_uri(page)}#{shown['anchor']}",
            "chapter": app.env.titles[page].astext(),
            "book": app.config.html_title,
            **version,
        }
        sign(app, f"embed/{id}", None, words, None)
        (folder / f"{id}.html").write_text(template.render(words), "utf-8")


def write_player(app: Sphinx) -> None:
    r"""Copy the player before the pages are written, so that their links carry its checksum."""
    if app.builder.format != "html":
        return
    from posenc.chapters import live_scripts
    from posenc.lab.explore import STATIC

    out = Path(app.outdir) / "_static" / "explore"
    out.mkdir(parents=True, exist_ok=True)
    for name in PLAYER:
        source = STATIC / name
        if not source.exists():
            raise ExtensionError(f"{source.relative_to(ROOT)} is missing: run `make vendor`")
        if name == "player.js":
            (out / name).write_text(bare(source.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(source, out / name)
    (out / "live").mkdir(exist_ok=True)
    for script in live_scripts().values():
        shutil.copyfile(script, out / "live" / script.name)


def setup(app: Sphinx) -> None:
    app.add_directive("explorable", ExplorableDirective)
    app.add_directive("live", LiveDirective)
    app.connect("builder-inited", write_player)
    app.connect("html-page-context", add_player)
    app.connect("build-finished", write_files)
