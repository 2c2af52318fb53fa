r"""The browser that draws pictures and judges pages."""

import os
import shutil

BROWSER_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROME_OF_A_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find_chromium() -> str | None:
    r"""A Chromium for Playwright: the system's, or None for the one that `playwright install chromium` brings."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    return CHROME_OF_A_MAC if os.path.exists(CHROME_OF_A_MAC) else None
