"""A headless Chromium that is signed in to an Airflow, and what a person does with it."""

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import uvicorn
from fastapi import FastAPI
from selenium import webdriver
from selenium.common.exceptions import (
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
DRIVER = shutil.which("chromedriver") or ""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)
LIMIT_S = 60.0
NAVIGATED = "aborted by navigation"
"""What Chromium says to a question during which the page is replaced by another one."""
T = TypeVar("T")


class Browser:
    """Every method waits until what it needs is there."""

    def __init__(self, driver: webdriver.Chrome, base_url: str) -> None:
        self.driver = driver
        self.base_url = base_url

    def until(self, holds: Callable[[], T], what: str) -> T:
        wait = WebDriverWait(
            self.driver,
            LIMIT_S,
            poll_frequency=0.1,
            ignored_exceptions=(
                NoSuchElementException,
                StaleElementReferenceException,
                ElementNotInteractableException,
            ),
        )

        def held(_: object) -> T | None:
            try:
                return holds()
            except WebDriverException as error:
                if NAVIGATED in str(error.msg):
                    return None
                raise

        return wait.until(held, what)  # type: ignore[arg-type,return-value]  # None = ask again

    def open(self, path: str) -> None:
        self.driver.get(self.base_url + path)

    def find(self, css: str) -> WebElement:
        return self.until(lambda: self.driver.find_element(By.CSS_SELECTOR, css), css)

    def find_all(self, css: str) -> list[WebElement]:
        self.find(css)
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def click(self, text: str) -> None:
        """A link with this text; in the page that is looked at (see `enter`)."""

        def found() -> bool:
            self.driver.find_element(By.PARTIAL_LINK_TEXT, text).click()
            return True

        self.until(found, f"a link {text!r}")

    def open_page(self, text: str) -> None:
        """A page of ours, by its link in Airflow's navigation; Airflow 3.2 has several of them in a menu."""

        def found() -> bool:
            menu = self.driver.find_elements(By.XPATH, "//button[normalize-space()='Plugins']")
            if menu and not self.driver.find_elements(By.PARTIAL_LINK_TEXT, text):
                menu[0].click()
            self.driver.find_element(By.PARTIAL_LINK_TEXT, text).click()
            return True

        self.until(found, f"the page {text!r}")

    def unfold(self) -> None:
        """Open every part of the page that is folded."""
        self.driver.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    def enter(self) -> None:
        """Look into the frame in which Airflow shows a page of ours."""
        self.leave()
        self.driver.switch_to.frame(self.find("iframe"))

    def leave(self) -> None:
        self.driver.switch_to.default_content()

    def said(self) -> list[str]:
        """What the browser had to complain about since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def sign_in(self, airflow: EmbeddedAirflow) -> None:
        def sent() -> bool:
            """On a slow machine Airflow draws the form once more while a field is being filled in."""
            for name, text in (("username", airflow.username), ("password", airflow.password)):
                field = self.driver.find_element(By.CSS_SELECTOR, f"input[name={name}]")
                field.clear()
                field.send_keys(text)
            self.driver.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
            return True

        self.open("/")
        self.until(sent, "the form of the log-in")
        self.until(lambda: "/auth/" not in self.driver.current_url, "signed in")


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address at which pages of ours are served without Airflow."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def looking_at(address: str, profile: Path, script: str = "") -> Iterator[Browser]:
    """A browser that nobody signs in; `profile` must not exist yet, and `script` runs before those of each page."""
    options = webdriver.ChromeOptions()
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.set_page_load_timeout(LIMIT_S)
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        yield Browser(driver, address)
    finally:
        driver.quit()


@contextmanager
def signed_in(airflow: EmbeddedAirflow, profile: Path) -> Iterator[Browser]:
    """A browser that is signed in."""
    with looking_at(airflow.base_url, profile) as browser:
        browser.sign_in(airflow)
        yield browser
