// The page of an old address leads on, with what stands behind its #: a section, the state of a figure.
location.replace(document.querySelector("link[rel=canonical]").getAttribute("href") + location.search + location.hash);
