"""A Django site in one file. Larder keeps its pages, its cache and its sessions.

REDIS: where Larder serves Redis's protocol. LARDER: where it serves the pages.
Run it: python3 site.py 8000
"""

import http.client
import os
import sys
from wsgiref.simple_server import make_server

import django
from django.conf import settings

REDIS = os.environ.get("REDIS", "127.0.0.1:6379")
LARDER = os.environ.get("LARDER", "127.0.0.1:8080")

settings.configure(
    SECRET_KEY=os.environ.get("SECRET_KEY", "for trying alone"),
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        # It sets Content-Length: an answer without a length is kept for ten seconds at most.
        "django.middleware.common.CommonMiddleware",
    ],
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://{REDIS}",
        }
    },
)
django.setup()

from django.core.cache import cache  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.cache import cache_control, never_cache  # noqa: E402


# s_maxage is for Larder, max_age for browsers, which ask again each time.
@cache_control(max_age=0, s_maxage=3600)
def news(request):
    """For everybody: from Larder's memory until it is purged."""
    shown = cache.get_or_set("news", "nothing new", None)
    return HttpResponse(f"{shown}, for {request.session.get('name', 'everybody')}")


@never_cache
def publish(request):
    """Changes the news, and has Larder forget the page."""
    cache.set("news", request.GET["text"], None)
    connection = http.client.HTTPConnection(LARDER, timeout=5)
    connection.request("PURGE", "/", headers={"Host": request.get_host()})
    return HttpResponse(f"purged: {connection.getresponse().status}")


@never_cache
def login(request):
    """A visitor with a session: his pages come from Django."""
    request.session["name"] = request.GET["name"]
    return HttpResponse("welcome")


urlpatterns = [path("", news), path("publish", publish), path("login", login)]
application = get_wsgi_application()

if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[1]), application).serve_forever()
