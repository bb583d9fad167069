"""Pictures of a leaderboard page in headless Chromium.

    python -m zcbench.tools.screenshots LEADERBOARD/index.html docs/page

The pictures are of the first screen at three widths, one of them dark, and of an opened row.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

#: Width and height of the window, and the colours that the reader's system asks for.
WINDOWS = {"1400-light": (1400, 1000, "light"), "1000-dark": (1000, 900, "dark"), "390-light": (390, 844, "light")}


def take(page: Path, out: Path) -> None:
    """Write one PNG for each window: the board of the first heading with its first row open in the dark one."""
    from playwright.sync_api import sync_playwright  # of the extra `browser`

    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (width, height, scheme) in WINDOWS.items():
            tab = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            tab.goto(page.resolve().as_uri())
            if scheme == "dark":
                tab.evaluate("go(document.querySelector('.board').dataset.board)")
                tab.locator(".board[open] .opener").first.click()
            tab.screenshot(path=out / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
